"""Memory that a server has given up goes back to the system, and requests do not pay for it."""

from __future__ import annotations

import os
import platform

import pytest
from support.process import run_python

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="only glibc keeps what is free again, and gives it back when told",
)

#: Holes of half a megabyte each between blocks that stay; prints whether what was in them goes.
HOLES = """
import ctypes, time
from onnxruntime_ep_tunableop.serve.heap import keep_little

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

libc.free(libc.malloc(16 << 20))  # from here on such blocks lie in the heap
blocks = []
for _ in range(200):
    blocks.append(libc.malloc(1 << 19))
    libc.memset(blocks[-1], 1, 1 << 19)
    libc.malloc(20_000)
for block in blocks:
    libc.free(block)
full = resident()
assert full > 100
keep_little(0.02)
end = time.monotonic() + SECONDS
while time.monotonic() < end and resident() > full - 80:
    time.sleep(0.01)
print(resident() < full - 80)
"""

#: Prints the pages that were touched for the first time by ten blocks of 8 MB, one after the other.
REUSE = """
import ctypes, resource
from onnxruntime_ep_tunableop.serve.heap import keep_little

keep_little()
for turn in range(12):
    if turn == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ctypes.memset(block := ctypes.create_string_buffer(8 << 20), 1, 8 << 20)
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(code: str, variables: dict[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    return run_python(code, env=clean | variables).stdout.strip()


@pytest.mark.parametrize(
    ("variables", "seconds", "gone"), [({}, 60.0, "True"), ({"MALLOC_ARENA_MAX": "4"}, 0.5, "False")]
)
def test_what_is_free_again_goes_back_to_the_system(
    variables: dict[str, str], seconds: float, gone: str
) -> None:
    assert run(HOLES.replace("SECONDS", str(seconds)), variables) == gone


def test_large_blocks_are_used_again() -> None:
    assert int(run(REUSE, {})) < 2048  # the pages of one of them
