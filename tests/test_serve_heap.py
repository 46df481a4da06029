"""Memory that a server has given up goes back to the system."""

from __future__ import annotations

import ctypes
import os
import platform

import pytest
from support.process import run_python

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="glibc 2.33 says how many blocks have memory of their own",
)

#: Frees a megabyte, upon which glibc keeps all that is smaller in its heap; prints the blocks that half of it adds.
BODY = """
import ctypes
from onnxruntime_ep_tunableop.serve.heap import keep_little

class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo2
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
if CALL:
    keep_little()
libc.free(libc.malloc(1 << 20))
before = libc.mallinfo2().hblks
libc.malloc(1 << 19)
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.parametrize(
    ("call", "variables", "blocks"),
    [(True, {}, "1"), (False, {}, "0"), (True, {"MALLOC_ARENA_MAX": "4"}, "0")],
)
def test_large_blocks_have_memory_of_their_own(call: bool, variables: dict[str, str], blocks: str) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    assert run_python(f"CALL = {call}\n{BODY}", env=clean | variables).stdout.split() == [blocks]
