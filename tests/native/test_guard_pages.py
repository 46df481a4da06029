"""No kernel reads or writes beyond its operands, not even to discard what it read."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tunableop_native_tests as native
from kernel_cases import ISAS, Case, Memory, kernels, make_data


class Guarded:
    """Arrays that end right before, or start right after, a page that nobody may touch."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.maps: list[tuple[mmap.mmap, object]] = []
        libc = ctypes.CDLL(None, use_errno=True)
        self.mprotect = libc.mprotect
        self.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def __call__(self, floats: int) -> np.ndarray:
        page = mmap.PAGESIZE
        size = max(1, -(-floats * 4 // page)) * page
        region = mmap.mmap(-1, size + 2 * page)
        anchor = (ctypes.c_char * (size + 2 * page)).from_buffer(region)
        start = ctypes.addressof(anchor)
        for guard in (start, start + page + size):
            if self.mprotect(guard, page, 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self.maps.append((region, anchor))
        first = page + (size - 4 * floats if self.at_end else 0)
        return np.frombuffer(region, np.float32, floats, first)


def run_guarded(isa: str) -> None:
    for at_end in (True, False):
        for base in (
            Case(1, 1, 1),
            Case(3, 5, 7),
            Case(7, 33, 21),
            Case(9, 1, 35),
            Case(1, 70, 19),
            Case(17, 80, 18),
            Case(2, 64, 64, batch=2),
        ):
            for packed, trans_b in ((False, False), (False, True), (True, False)):
                for trans_a in (False, True):
                    for beta in (0.0, 1.0):
                        case = replace(
                            base,
                            trans_a=trans_a,
                            trans_b=trans_b,
                            packed=packed,
                            beta=beta,
                            epilogue="bias_gelu",
                        )
                        memory = Memory(case, make_data(case), Guarded(at_end))
                        for kernel in kernels(isa, case.problem()):
                            memory.run(kernel)


def in_child(work: Callable[[], None]) -> int:
    """Run in a forked process, which the first stray access kills; its wait status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("isa", ISAS)
def test_nothing_beyond_the_operands_is_touched(isa: str) -> None:
    status = in_child(lambda: run_guarded(isa))
    assert not os.WIFSIGNALED(status), f"killed by signal {os.WTERMSIG(status)}"
    assert os.WEXITSTATUS(status) == 0


@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_the_guard_notices(operand: str) -> None:
    """One row too many of an operand kills the child: the test above can fail."""

    def overrun() -> None:
        faulthandler.disable()
        case = Case(4, 16, 16)
        memory = Memory(case, make_data(case), Guarded(at_end=True))
        enough = np.zeros(1024, np.float32)
        operands = [memory.a if operand == "a" else enough, memory.b if operand == "b" else enough]
        c = memory.c if operand == "c" else enough
        longer = replace(case, k=17) if operand == "b" else replace(case, m=5)
        problem = longer.problem()
        native.run_kernel(problem, kernels(ISAS[0], problem)[0], *operands, c)

    status = in_child(overrun)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGSEGV
