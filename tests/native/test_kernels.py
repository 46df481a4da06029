"""Every CPU kernel against numpy in double precision, called directly, without ONNX Runtime.

Tolerance: a sum of k products, each rounded to relative precision eps, is off by at most about
``k * eps * (|A| |B|)`` and, the roundings being independent, typically by ``sqrt(k)`` of that. The tests
allow ``4 * sqrt(k + 4) * eps * (|alpha| |A| |B| + |beta| |C| + |bias|)``, element by element.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import mmap
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime_ep_tunableop import _core

# Before anything asks for the libraries, which are loaded once.
_FOUND = importlib.util.find_spec("scipy_openblas32")
OPENBLAS_FOLDER = str(Path(_FOUND.origin).parent / "lib") if _FOUND and _FOUND.origin else None
if OPENBLAS_FOLDER is not None:
    _core.set_openblas_search_path(OPENBLAS_FOLDER)

EPS = float(np.finfo(np.float32).eps)
CANARY = np.float32(-12345.5)
ISAS = _core.native_isas()
WIDTHS = {"avx512": 16, "avx2": 8, "sse42": 4, "neon": 4}
EPILOGUES = ("none", "bias", "relu", "bias_relu", "gelu", "bias_gelu")


@dataclass(frozen=True)
class Case:
    """A product and how its operands lie in memory."""

    m: int
    n: int
    k: int
    batch: int = 1
    trans_a: bool = False
    trans_b: bool = False
    packed: bool = False
    broadcast: str = ""  # which of "a", "b" serve the whole batch
    pad: int = 0  # what each leading dimension exceeds its minimum by
    offset: int = 0  # floats that each operand is moved off its alignment by
    alpha: float = 1.0
    beta: float = 0.0
    epilogue: str = "none"
    threads: int = 1

    def problem(self) -> _core.Problem:
        p = _core.Problem()
        p.m, p.n, p.k, p.batch = self.m, self.n, self.k, self.batch
        p.trans_a = int(self.trans_a)
        p.lda = max(1, self.m if self.trans_a else self.k) + self.pad
        p.ldc = max(1, self.n) + self.pad
        p.stride_a = 0 if "a" in self.broadcast or self.batch < 2 else self.a_shape[0] * p.lda + self.pad
        p.stride_c = 0 if self.batch < 2 else self.m * p.ldc + self.pad
        if self.packed:
            p.b_layout = _core.BLayout.packed
            p.b_constant = 1
            p.stride_b = 0 if "b" in self.broadcast or self.batch < 2 else _core.packed_floats(self.k, self.n)
        else:
            p.trans_b = int(self.trans_b)
            p.ldb = max(1, self.k if self.trans_b else self.n) + self.pad
            p.stride_b = 0 if "b" in self.broadcast or self.batch < 2 else self.b_shape[0] * p.ldb + self.pad
        p.alpha = scalar_class(self.alpha)
        p.beta = scalar_class(self.beta)
        p.epilogue = getattr(_core.Epilogue, self.epilogue)
        p.threads = self.threads
        return p

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.k, self.m) if self.trans_a else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.n, self.k) if self.trans_b else (self.k, self.n)


def scalar_class(value: float) -> _core.ScalarClass:
    if value == 0.0:
        return _core.ScalarClass.zero
    return _core.ScalarClass.one if value == 1.0 else _core.ScalarClass.other


@lru_cache(maxsize=1)
def erf_table() -> np.ufunc:
    return np.frompyfunc(math.erf, 1, 1)


def activate(x: np.ndarray, epilogue: str) -> np.ndarray:
    if "relu" in epilogue:
        return np.where(x < 0, 0.0, x)
    if "gelu" in epilogue:
        return 0.5 * x * (1.0 + erf_table()(x / math.sqrt(2.0)).astype(np.float64))
    return x


@dataclass
class Data:
    """Operands of a Case: the logical matrices, and the flat memory that they lie in."""

    a: np.ndarray  # [batch, m, k]
    b: np.ndarray  # [batch, k, n]
    c: np.ndarray  # [batch, m, n] before the call
    bias: np.ndarray  # [n]


def make_data(case: Case, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)

    def matrix(shared: bool, rows: int, columns: int) -> np.ndarray:
        one = rng.standard_normal((1 if shared else case.batch, rows, columns)).astype(np.float32)
        return np.broadcast_to(one, (case.batch, rows, columns))

    return Data(
        matrix("a" in case.broadcast, case.m, case.k),
        matrix("b" in case.broadcast, case.k, case.n),
        matrix(False, case.m, case.n),
        rng.standard_normal(case.n).astype(np.float32),
    )


def expected(case: Case, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The result in double precision, and the tolerance of each element."""
    a, b, c = (x.astype(np.float64) for x in (data.a, data.b, data.c))
    value = case.alpha * (a @ b)
    scale = abs(case.alpha) * (np.abs(a) @ np.abs(b))
    if case.beta != 0.0:
        value = value + case.beta * c
        scale = scale + abs(case.beta) * np.abs(c)
    if "bias" in case.epilogue:
        value = value + data.bias.astype(np.float64)
        scale = scale + np.abs(data.bias)
    return activate(value, case.epilogue), 4.0 * math.sqrt(case.k + 4) * EPS * scale + 1e-37


def store(
    flat: np.ndarray, matrices: np.ndarray, transposed: bool, ld: int, stride: int, offset: int
) -> None:
    """Write [batch, rows, columns] into flat memory as the Problem describes it."""
    for i in range(matrices.shape[0]):
        matrix = matrices[i].T if transposed else matrices[i]
        for r in range(matrix.shape[0]):
            start = offset + i * stride + r * ld
            flat[start : start + matrix.shape[1]] = matrix[r]


def extent(batch: int, stride: int, rows: int, ld: int, columns: int) -> int:
    """Floats from the first to the last element of an operand."""
    if batch == 0 or rows == 0 or columns == 0:
        return 0
    return (batch - 1) * stride + (rows - 1) * ld + columns


def address(array: np.ndarray, offset: int = 0) -> int:
    return array.ctypes.data + 4 * offset


class Memory:
    """Operands of a Case laid out with poison (NaN) between and around what may be read."""

    def __init__(self, case: Case, data: Data, allocate: Callable[[int], np.ndarray] | None = None) -> None:
        p = case.problem()
        self.case, self.problem = case, p
        front = 0 if allocate else 16 + case.offset
        tail = 0 if allocate else 16

        def region(floats: int, fill: np.float32) -> np.ndarray:
            array = allocate(floats) if allocate else np.empty(front + floats + tail, np.float32)
            array[:] = fill
            return array

        nan = np.float32(np.nan)
        self.a = region(extent(case.batch, p.stride_a, case.a_shape[0], p.lda, case.a_shape[1]), nan)
        store(self.a, data.a, case.trans_a, p.lda, p.stride_a, front)
        if case.packed:
            shared = p.stride_b == 0
            self.b = _core.pack_b(np.ascontiguousarray(data.b[:1] if shared else data.b))
        else:
            self.b = region(extent(case.batch, p.stride_b, case.b_shape[0], p.ldb, case.b_shape[1]), nan)
            store(self.b, data.b, case.trans_b, p.ldb, p.stride_b, front)
        self.c = region(extent(case.batch, p.stride_c, case.m, p.ldc, case.n), CANARY)
        self.bias = region(case.n, nan)
        self.bias[front : front + case.n] = data.bias
        self.front = front
        self.c_start = data.c

    def reset(self) -> None:
        """C: what beta multiplies, or poison when it must not be read; canaries everywhere else."""
        self.c[:] = CANARY
        poison = np.full_like(self.c_start, np.nan)
        store(
            self.c,
            poison if self.case.beta == 0.0 else self.c_start,
            False,
            self.problem.ldc,
            self.problem.stride_c,
            self.front,
        )

    def run(self, kernel: _core.Candidate) -> np.ndarray:
        """Run the kernel; return the flat C."""
        self.reset()
        case = self.case
        _core.run_kernel(
            self.problem,
            kernel,
            address(self.a, self.front),
            self.b if case.packed else address(self.b, self.front),
            address(self.c, self.front),
            address(self.bias, self.front) if "bias" in case.epilogue else None,
            alpha=case.alpha,
            beta=case.beta,
            threads=case.threads,
        )
        return self.c

    def result(self) -> np.ndarray:
        case, p = self.case, self.problem
        rows = [
            self.c[self.front + i * p.stride_c + r * p.ldc :][: case.n]
            for i in range(case.batch)
            for r in range(case.m)
        ]
        return np.array(rows, np.float32).reshape(case.batch, case.m, case.n)

    def untouched(self) -> bool:
        """Were all floats that are not elements of C left alone?"""
        rest = self.c.copy()
        canaries = np.full_like(self.c_start, CANARY)
        store(rest, canaries, False, self.problem.ldc, self.problem.stride_c, self.front)
        return bool(np.all(rest == CANARY))


def kernels(isa: str, problem: _core.Problem) -> list[_core.Candidate]:
    found = _core.native_kernels(isa, problem)
    assert found, f"{isa} has no kernel for {problem}"
    return found


def check(case: Case, names: list[_core.Candidate], seed: int = 0) -> None:
    data = make_data(case, seed)
    want, tolerance = expected(case, data)
    memory = Memory(case, data)
    for kernel in names:
        memory.run(kernel)
        got = memory.result()
        error = np.abs(got - want)
        assert np.all(error <= tolerance), (
            f"{kernel.full_name} {case}: {np.count_nonzero(~(error <= tolerance))} wrong, first at "
            f"{np.argwhere(~(error <= tolerance))[0]}, worst {np.nanmax(error / tolerance):.3g} x tolerance"
        )
        assert memory.untouched(), f"{kernel.full_name} {case}: wrote beside C"


def check_all(case: Case, isa: str, seed: int = 0) -> None:
    check(case, kernels(isa, case.problem()), seed)


def tile_names(isa: str) -> Iterator[tuple[int, int, str]]:
    """(rows, columns, name without options) of every register tile that the instruction set has."""
    probe = Case(1, 1, 1).problem()
    for vectors in range(1, 9):
        for rows in range(1, 33):
            name = f"{isa}:{rows}x{vectors * WIDTHS[isa]}"
            a = np.ones(1, np.float32)
            try:
                _core.run_kernel(probe, _core.Candidate("native", name + "/none"), a, a, a.copy())
            except FileNotFoundError:
                break
            yield rows, vectors * WIDTHS[isa], name


def test_every_instruction_set_of_this_machine_is_offered() -> None:
    assert ISAS
    assert set(ISAS) <= set(WIDTHS)
    if "avx512" in ISAS:
        assert ISAS == ["avx512", "avx2", "sse42"]


def test_libraries() -> None:
    by_name = {x["library"]: x for x in _core.libraries()}
    assert by_name["native"]["available"]
    assert ISAS[0] in by_name["native"]["identity"]
    for library in by_name.values():
        assert bool(library["identity"]) == library["available"]
        assert bool(library["reason"]) != library["available"]


@pytest.mark.parametrize("isa", ISAS)
def test_every_tile(isa: str) -> None:
    """Each register tile, full and one column short, in each way of reaching B."""
    tiles = list(tile_names(isa))
    assert len(tiles) > 10
    for rows, columns, name in tiles:
        for n in (columns, columns - 1):
            for k in (1, 6, 19):
                case = Case(rows, n, k, pad=3, epilogue="bias", beta=0.5, alpha=1.5)
                options = [_core.Candidate("native", name + x) for x in ("/none", "/none/pb", "/kc4/none/pa")]
                check(case, options)
                full = [_core.Candidate("native", name + x) for x in ("/none", "/kc8/none", "/none/pf8")]
                check(replace(case, n=64 + n, packed=True), full)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("packed", [False, True])
def test_lengths_around_the_vector_width(isa: str, packed: bool) -> None:
    v = WIDTHS[isa]
    for n in sorted({1, 2, 3, 7, v - 1, v, v + 1, 2 * v // 3, 2 * v + 1, 4 * v - 1, 63, 64, 65, 129}):
        for m, k in ((1, 17), (5, 3), (7, v), (17, v + 1)):
            check_all(Case(m, n, k, packed=packed, offset=1), isa)
    for k in (1, 2, 3, 7, v - 1, v, v + 1, 2 * v, 4 * v + 1, 8 * v + 3, 300):
        for m, n in ((1, 1), (6, 1), (1, 9), (9, 20)):
            check_all(Case(m, n, k, packed=packed, pad=1), isa)
            if not packed:
                check_all(Case(m, n, k, trans_b=True, pad=1), isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_alpha_beta_and_epilogue(isa: str, epilogue: str) -> None:
    for alpha, beta in ((1.0, 0.0), (1.0, 1.0), (-0.5, 0.0), (2.0, 0.25), (0.0, 1.0)):
        for m, n, k in ((5, 33, 600), (3, 1, 40)):
            for packed in (False, True):
                case = Case(m, n, k, alpha=alpha, beta=beta, epilogue=epilogue, packed=packed, pad=2)
                check_all(case, isa)
    check_all(Case(1, 21, 30, trans_b=True, beta=1.0, epilogue=epilogue), isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_transposes_and_threads(isa: str, trans_a: bool, trans_b: bool, threads: int) -> None:
    for m, n, k in ((1, 40, 33), (2, 3, 5), (40, 1, 50), (67, 130, 70), (13, 200, 1030)):
        for offset in (0, 3):
            check_all(
                Case(m, n, k, trans_a=trans_a, trans_b=trans_b, threads=threads, offset=offset, pad=offset),
                isa,
            )
        if not trans_b:
            check_all(Case(m, n, k, trans_a=trans_a, packed=True, threads=threads), isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("broadcast", ["", "a", "b", "ab"])
def test_batches(isa: str, packed: bool, broadcast: str) -> None:
    for threads in (1, 2, 3):
        for pad in (0, 1):
            case = Case(5, 19, 23, batch=4, broadcast=broadcast, packed=packed, threads=threads, pad=pad)
            check_all(case, isa)
            check_all(replace(case, n=1, epilogue="bias_relu", beta=1.0), isa)
        check_all(
            Case(3, 70, 9, batch=3, trans_a=True, broadcast=broadcast, packed=packed, threads=threads), isa
        )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("packed", [False, True])
def test_sizes_of_zero(isa: str, packed: bool) -> None:
    for m, n, k, batch in ((0, 5, 5, 1), (5, 0, 5, 1), (5, 5, 5, 0), (0, 0, 0, 0), (0, 5, 0, 2)):
        case = Case(m, n, k, batch=batch, packed=packed and batch > 0)
        for kernel in _core.native_kernels(isa, case.problem()):
            memory = Memory(case, make_data(case))
            memory.run(kernel)
            assert memory.untouched()
    for beta in (0.0, 1.0, 0.5):
        for n in (1, 40):
            for epilogue in EPILOGUES:
                check_all(Case(7, n, 0, packed=packed, beta=beta, epilogue=epilogue), isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("packed", [False, True])
def test_nan_and_inf_propagate(isa: str, packed: bool) -> None:
    """One special value per operand reaches exactly the elements that IEEE says, zeros or not."""
    for m, n, k in ((5, 37, 40), (7, 1, 33), (1, 50, 20)):
        for epilogue in ("none", "relu", "gelu"):
            case = Case(m, n, k, packed=packed, epilogue=epilogue)
            for special in (np.nan, np.inf, -np.inf):
                data = make_data(case)
                data.a, data.b = data.a.copy(), data.b.copy()
                data.b[:, 3, :] = 0.0
                data.a[:, m // 2, 3] = special  # times zero: NaN in one row
                data.b[:, k - 1, n // 2] = special
                with np.errstate(invalid="ignore"):
                    want, _ = expected(case, data)
                memory = Memory(case, data)
                for kernel in kernels(isa, case.problem()):
                    memory.run(kernel)
                    got = memory.result()
                    nan = np.isnan(want)
                    assert np.array_equal(np.isnan(got), nan), f"{kernel.full_name} {case} {special}"
                    assert np.array_equal(np.isposinf(got[~nan]), np.isposinf(want[~nan])), kernel.full_name
                    assert np.array_equal(np.isneginf(got[~nan]), np.isneginf(want[~nan])), kernel.full_name


def test_gelu_is_accurate() -> None:
    x = np.concatenate([np.linspace(-9, 9, 4001), [0.0, -0.0, 1e-30, 40.0, -40.0]]).astype(np.float32)
    case = Case(1, x.size, 1, epilogue="gelu")
    for isa in ISAS:
        out = np.empty_like(x)
        one = np.ones(1, np.float32)
        _core.run_kernel(case.problem(), kernels(isa, case.problem())[0], one, x, out)
        want = activate(x.astype(np.float64), "gelu")
        # erf to 3 units in the last place of 1, times x / 2.
        assert np.all(np.abs(out - want) <= EPS * (2.0 * np.abs(want) + 1.5 * np.abs(x)) + 1e-37), isa


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_problems(isa: str, data: st.DataObject) -> None:
    size = st.one_of(st.integers(1, 20), st.integers(1, 140))
    packed = data.draw(st.booleans())
    case = Case(
        data.draw(size),
        data.draw(size),
        data.draw(st.one_of(size, st.integers(0, 700))),
        batch=data.draw(st.integers(1, 3)),
        trans_a=data.draw(st.booleans()),
        trans_b=not packed and data.draw(st.booleans()),
        packed=packed,
        broadcast=data.draw(st.sampled_from(["", "a", "b"])),
        pad=data.draw(st.integers(0, 5)),
        offset=data.draw(st.integers(0, 15)),
        alpha=data.draw(st.sampled_from([1.0, 0.5, -3.0])),
        beta=data.draw(st.sampled_from([0.0, 1.0, -0.25])),
        epilogue=data.draw(st.sampled_from(EPILOGUES)),
        threads=data.draw(st.integers(1, 3)),
    )
    names = kernels(isa, case.problem())
    check(
        case,
        data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4)),
        data.draw(st.integers(0, 9)),
    )


@pytest.mark.parametrize("transposed", [False, True])
@settings(max_examples=40, deadline=None)
@given(k=st.integers(0, 90), n=st.integers(1, 200), batch=st.integers(1, 3))
def test_packing(transposed: bool, k: int, n: int, batch: int) -> None:
    rng = np.random.default_rng(k * 1000 + n)
    b = rng.standard_normal((batch, n, k) if transposed else (batch, k, n)).astype(np.float32)
    packed = _core.pack_b(b, transposed=transposed)
    assert (packed.k, packed.n, packed.batch) == (k, n, batch)
    assert packed.address % 64 == 0
    assert np.array_equal(packed.to_numpy(), b.swapaxes(1, 2) if transposed else b)
    assert np.sum(packed.raw().astype(np.float64)) == pytest.approx(np.sum(b.astype(np.float64)))


def test_large_weights_are_on_their_own_pages() -> None:
    b = np.arange(1024 * 1000, dtype=np.float32).reshape(1000, 1024)
    for transposed in (False, True):
        packed = _core.pack_b(b, transposed=transposed)
        assert packed.address % (2 << 20) == 0
        assert np.array_equal(packed.to_numpy()[0], b.T if transposed else b)


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


@pytest.mark.parametrize("isa", ISAS)
def test_nothing_beyond_the_operands_is_touched(isa: str) -> None:
    """In a child process, which the first stray access kills."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run_guarded(isa)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert not os.WIFSIGNALED(status), f"killed by signal {os.WTERMSIG(status)}"
    assert os.WEXITSTATUS(status) == 0


def in_child(code: str, **environment: str) -> str:
    """Run Python code in a process of its own: libraries are loaded once per process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOW_OPENBLAS = (
    "from onnxruntime_ep_tunableop import _core;"
    "print([x for x in _core.libraries() if x['library'] == 'openblas'][0])"
)


def test_openblas_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    shown = in_child(SHOW_OPENBLAS, TUNABLEOP_OPENBLAS_LIBRARY=str(tmp_path / "absent.so"))
    assert "'available': False" in shown
    assert "absent.so" in shown
    # A library that is no OpenBLAS: this very extension module.
    shown = in_child(SHOW_OPENBLAS, TUNABLEOP_OPENBLAS_LIBRARY=str(_core.__file__))
    assert "'available': False" in shown
    assert "has no symbol cblas_sgemm" in shown


OPENBLAS_CASES = [
    Case(8, 8, 8),
    Case(1, 70, 33),
    Case(33, 1, 40),
    Case(67, 130, 70, pad=3, offset=1, epilogue="bias_gelu", beta=0.5, alpha=-2.0),
    Case(5, 65, 300, trans_a=True, trans_b=True, pad=1, epilogue="bias", beta=1.0),
    Case(9, 200, 31, batch=3, epilogue="relu"),
    Case(9, 20, 31, batch=4, broadcast="b", pad=2),
    Case(12, 150, 64, packed=True, epilogue="bias_relu"),
    Case(12, 1, 64, packed=True, batch=2),
    Case(6, 33, 20, packed=True, trans_a=True, beta=1.0),
]


@pytest.mark.skipif(OPENBLAS_FOLDER is None, reason="scipy-openblas32 is not installed")
@pytest.mark.parametrize("case", OPENBLAS_CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_openblas(case: Case, threads: int) -> None:
    case = replace(case, threads=threads)
    found = _core.candidates(case.problem(), scope_all=True, library="openblas")
    assert found, _core.libraries()
    check(case, found)


@pytest.mark.skipif(OPENBLAS_FOLDER is None, reason="scipy-openblas32 is not installed")
def test_openblas_leaves_products_without_terms_to_others() -> None:
    case = Case(3, 4, 0)
    assert _core.candidates(case.problem(), scope_all=True, library="openblas") == []
    a = np.ones(12, np.float32)
    with pytest.raises(NotImplementedError):
        _core.run_kernel(case.problem(), _core.Candidate("openblas", "sgemm/none"), a, a, a.copy())
    with pytest.raises(FileNotFoundError):
        _core.run_kernel(Case(1, 1, 1).problem(), _core.Candidate("openblas", "sgemm/no"), a, a, a.copy())


def test_candidates_follow_the_rules() -> None:
    for case in (Case(1, 64, 64), Case(128, 768, 768, packed=True, threads=4), Case(9, 1, 30), Case(8, 8, 8)):
        problem = case.problem()
        few = _core.candidates(problem, library="native")
        every = _core.candidates(problem, scope_all=True, library="native")
        assert 1 <= len(few) <= 5
        assert few[0] == every[0], "the default must not depend on the scope"
        assert {x.full_name for x in few} <= {x.full_name for x in every}
        assert len({x.full_name for x in every}) == len(every)
        assert all(x.kernel.startswith(ISAS[0] + ":") for x in every)
        assert _core.candidates(problem, scope_all=True, library="native") == every


@pytest.mark.parametrize(
    "name",
    [
        "",
        "avx512",
        "avx1024:6x64/none",
        "{isa}:",
        "{isa}:0x64/none",
        "{isa}:99x64/none",
        "{isa}:1x3/none",
        "{isa}:1x64/none/kc8",
        "{isa}:1x64/kc8/none/zz1",
        "{isa}:1x64/kc-8/none",
        "{isa}:1x64/kc99999999999999999999/none",
        "{isa}:1x64/none/",
        "{isa}:1x64",
    ],
)
def test_names_that_are_no_kernels(name: str) -> None:
    a = np.ones(1, np.float32)
    kernel = _core.Candidate("native", name.format(isa=ISAS[0]))
    with pytest.raises(FileNotFoundError):
        _core.run_kernel(Case(1, 1, 1).problem(), kernel, a, a, a.copy())


def test_problems_that_native_kernels_refuse() -> None:
    a = np.ones(4, np.float32)
    half = Case(2, 2, 1).problem()
    half.a_type = _core.DataType.float16
    assert _core.candidates(half, library="native") == []
    with pytest.raises(NotImplementedError):
        _core.run_kernel(
            half, _core.Candidate("native", f"{ISAS[0]}:1x{WIDTHS[ISAS[0]]}/none"), a, a, a.copy()
        )
    dot = _core.Candidate("native", f"{ISAS[0]}:dot/none")
    with pytest.raises(NotImplementedError):
        _core.run_kernel(Case(2, 2, 1).problem(), dot, a, a, a.copy())
    short = Case(2, 2, 3).problem()
    short.lda = 2
    with pytest.raises(ValueError, match="lda"):
        _core.run_kernel(short, _core.Candidate("native", f"{ISAS[0]}:dot/none"), a, a, a.copy())
