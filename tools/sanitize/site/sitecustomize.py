"""For each Python under AddressSanitizer and UBSan: tells UBSan where its reports go.

Beside AddressSanitizer, GCC's libubsan has a second copy of what reads log_path, and leaves it as it is:
its reports would go to standard error, which pytest keeps to itself.
"""

import ctypes
import os

if "TUNABLEOP_UBSAN_REPORTS" in os.environ:
    runtime = ctypes.CDLL(os.environ["TUNABLEOP_UBSAN_RUNTIME"])
    runtime.__sanitizer_set_report_path(os.environ["TUNABLEOP_UBSAN_REPORTS"].encode())
