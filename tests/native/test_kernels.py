"""Every native CPU kernel against numpy in double precision, called directly, without ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import (
    EPILOGUES,
    EPS,
    ISAS,
    WIDTHS,
    Case,
    Memory,
    activate,
    check,
    check_all,
    expected,
    kernels,
    make_data,
)


def tile_names(isa: str) -> Iterator[tuple[int, int, str]]:
    """(rows, columns, name without options) of every register tile that the instruction set has."""
    probe = Case(1, 1, 1).problem()
    for vectors in range(1, 9):
        for rows in range(1, 33):
            name = f"{isa}:{rows}x{vectors * WIDTHS[isa]}"
            a = np.ones(1, np.float32)
            try:
                native.run_kernel(probe, native.Candidate("native", name + "/none"), a, a, a.copy())
            except FileNotFoundError:
                break
            yield rows, vectors * WIDTHS[isa], name


def test_every_instruction_set_of_this_machine_is_offered() -> None:
    assert ISAS
    assert set(ISAS) <= set(WIDTHS)
    if "avx512" in ISAS:
        assert ISAS == ["avx512", "avx2", "sse42"]


def test_libraries() -> None:
    by_name = {x["library"]: x for x in native.libraries()}
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
                options = [
                    native.Candidate("native", name + x) for x in ("/none", "/none/pb", "/kc4/none/pa")
                ]
                check(case, options)
                full = [native.Candidate("native", name + x) for x in ("/none", "/kc8/none", "/none/pf8")]
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
        for kernel in native.native_kernels(isa, case.problem()):
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
        native.run_kernel(case.problem(), kernels(isa, case.problem())[0], one, x, out)
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


def test_candidates_follow_the_rules() -> None:
    for case in (Case(1, 64, 64), Case(128, 768, 768, packed=True, threads=4), Case(9, 1, 30), Case(8, 8, 8)):
        problem = case.problem()
        few = native.candidates(problem, library="native")
        every = native.candidates(problem, scope_all=True, library="native")
        assert 1 <= len(few) <= 5
        assert few[0] == every[0], "the default must not depend on the scope"
        assert {x.full_name for x in few} <= {x.full_name for x in every}
        assert len({x.full_name for x in every}) == len(every)
        assert all(x.kernel.startswith(ISAS[0] + ":") for x in every)
        assert native.candidates(problem, scope_all=True, library="native") == every


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
    kernel = native.Candidate("native", name.format(isa=ISAS[0]))
    with pytest.raises(FileNotFoundError):
        native.run_kernel(Case(1, 1, 1).problem(), kernel, a, a, a.copy())


def test_problems_that_native_kernels_refuse() -> None:
    a = np.ones(4, np.float32)
    half = Case(2, 2, 1).problem()
    half.a_type = native.DataType.float16
    assert native.candidates(half, library="native") == []
    with pytest.raises(NotImplementedError):
        native.run_kernel(
            half, native.Candidate("native", f"{ISAS[0]}:1x{WIDTHS[ISAS[0]]}/none"), a, a, a.copy()
        )
    dot = native.Candidate("native", f"{ISAS[0]}:dot/none")
    with pytest.raises(NotImplementedError):
        native.run_kernel(Case(2, 2, 1).problem(), dot, a, a, a.copy())
    short = Case(2, 2, 3).problem()
    short.lda = 2
    with pytest.raises(ValueError, match="lda"):
        native.run_kernel(short, native.Candidate("native", f"{ISAS[0]}:dot/none"), a, a, a.copy())
