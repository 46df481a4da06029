"""What `make sanitize` makes of reports: a tool that excuses everything would always be content."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tools" / "sanitize" / "run.py"
OURS = "    #1 tunableop::Run() /src/ep/provider/x.cc:4 (libonnxruntime_providers_tunableop.so+0x72625)"
ORT = "    #1 <null> <null> (onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so+0x151ad54)"
NEW = "    #0 operator new(unsigned long) tsan_new_delete.cpp:64 (libtsan.so+0x87323)"
# As AddressSanitizer writes it, which names the library only where it knows no line.
LINE = f"    #1 0x7ffff32f1bd5 in tunableop::Run() {ROOT}/ep/provider/x.cc:4"
LINE_ELSEWHERE = f"    #1 0x7ffff32f1bd5 in Run() {ROOT}/.venv/lib/python3.11/site-packages/ep/x.h:67"
LOADER = "    #1 free ../include/rtld-malloc.h:50 (ld-linux-x86-64.so.2+0x11785)"


def race(first: list[str], second: list[str]) -> str:
    parts = [
        "WARNING: ThreadSanitizer: data race (pid=1)",
        "  Write of size 8 at 0x7b08 by thread T3:",
        *first,
    ]
    parts += ["", "  Previous read of size 8 at 0x7b08 by thread T11:", *second, ""]
    return "\n".join([*parts, "  Thread T3 (tid=4, running) created by main thread at:", OURS, ""])


REPORTS = {
    "ours": (race([OURS], [OURS]), 1),
    "ours, through the runtime": (race([NEW, OURS], [OURS]), 1),
    "ORT's, called by us": (race([NEW, ORT, OURS], [ORT, OURS]), 0),
    "against ORT": (race([OURS], [NEW, ORT]), 0),
    "against the loader": (race([NEW, LOADER], [OURS]), 0),
    "lock order": (f"WARNING: ThreadSanitizer: lock-order-inversion (pid=1)\n{ORT}\n{OURS}\n", 1),
    "overflow": (f"==7==ERROR: AddressSanitizer: heap-buffer-overflow\nREAD of size 4\n{NEW}\n{OURS}\n", 1),
    "overflow elsewhere": (f"==7==ERROR: AddressSanitizer: heap-buffer-overflow\n{ORT}\n", 0),
    "overflow, at a line": (
        f"==7==ERROR: AddressSanitizer: heap-buffer-overflow\nREAD of size 4\n{LINE}\n",
        1,
    ),
    "overflow elsewhere, at a line": (
        f"==7==ERROR: AddressSanitizer: heap-buffer-overflow\n{LINE_ELSEWHERE}\n",
        0,
    ),
    "undefined": (f"/src/ep/gemm/x.cc:3:7: runtime error: signed integer overflow\n{OURS}\n", 1),
    "undefined, without a stack": ("/src/ep/gemm/x.cc:3:7: runtime error: signed integer overflow\n", 1),
    "undefined elsewhere": (f"/src/include/numpy/x.h:3:7: runtime error: null pointer\n{ORT}\n", 0),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_about_this_project_is_a_failure(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, count = REPORTS[name]
    # Among reports that are nothing to this project.
    (tmp_path / "report.1").write_text(f"==================\n{REPORTS['overflow elsewhere'][0]}")
    (tmp_path / "report.2").write_text(f"==================\n{report}\n{REPORTS['overflow elsewhere'][0]}")
    tool = runpy.run_path(str(SCRIPT))
    assert tool["judge"](tool["KINDS"][0], tmp_path) is (count == 0)
    assert f"{count} different reports about this project" in capsys.readouterr().out
