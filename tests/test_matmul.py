"""MatMul in a session: every shape rule of numpy.matmul, against float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import matmul_model
from support.sessions import Feeds, calls, check_runs, ours, quick_session, random
from support.tolerance import Array, assert_close, product

EDGES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 127, 129)
CONSTANTS = {"both_computed": "", "constant_b": "B", "constant_a": "A"}


def check_matmul(a: Array, b: Array, constant: str = "", *, dynamic: bool = True, **options: Any) -> None:
    arrays = {"A": a, "B": b}
    shapes = {name: [None] * array.ndim if dynamic else list(array.shape) for name, array in arrays.items()}
    constants = {name: arrays[name] for name in constant}
    session = quick_session(matmul_model(shapes["A"], shapes["B"], constants=constants), **options)
    assert ours(session) == ["MatMul"]
    feeds = {name: array for name, array in arrays.items() if name not in constants}
    exact, bound = product(a, b)
    check_runs(session, feeds, exact, bound)
    if exact.size:
        assert calls(session) + sum(tunableop.stats(session).fallbacks.values()) > 0


# --- ranks and broadcasting

RANKS = [
    ((7,), (7,)),
    ((7,), (7, 5)),
    ((4, 7), (7,)),
    ((4, 7), (7, 5)),
    ((7,), (3, 7, 5)),
    ((7,), (2, 3, 7, 5)),
    ((3, 4, 7), (7,)),
    ((2, 3, 4, 7), (7,)),
    ((3, 4, 7), (7, 5)),
    ((4, 7), (3, 7, 5)),
    ((3, 4, 7), (3, 7, 5)),
    ((2, 3, 4, 7), (2, 3, 7, 5)),
    ((2, 3, 4, 7), (7, 5)),
    ((2, 3, 4, 7), (3, 7, 5)),
    ((3, 4, 7), (2, 3, 7, 5)),
    ((2, 3, 4, 7), (2, 1, 7, 5)),
    ((2, 3, 4, 7), (1, 3, 7, 5)),
    ((2, 1, 4, 7), (2, 3, 7, 5)),
    ((1, 3, 4, 7), (2, 3, 7, 5)),
    ((2, 1, 4, 7), (1, 3, 7, 5)),
    ((1, 3, 4, 7), (2, 1, 7, 5)),
    ((1, 1, 4, 7), (2, 3, 7, 5)),
    ((2, 2, 3, 4, 7), (2, 2, 3, 7, 5)),
    ((2, 1, 3, 4, 7), (1, 2, 1, 7, 5)),
    ((1, 2, 1, 4, 7), (2, 1, 3, 7, 5)),
    ((2, 2, 3, 4, 7), (2, 1, 3, 7, 5)),
    ((2, 2, 3, 4, 7), (3, 7, 5)),
    ((2, 2, 3, 4, 7), (2, 1, 7, 5)),
    ((2, 3, 1, 4, 7), (7, 5)),
    ((2, 2, 2, 2, 2, 3, 4), (1, 2, 1, 2, 1, 4, 3)),
]


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
@pytest.mark.parametrize(("a", "b"), RANKS, ids=str)
def test_ranks_and_batches_broadcast_as_numpy_does(
    a: tuple[int, ...], b: tuple[int, ...], constant: str
) -> None:
    check_matmul(random(a, 1), random(b, 2), constant)


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that numpy.matmul accepts."""
    m, n, k = (draw(st.sampled_from((0, 1, 2, 3, 4, 9, 17, 33))) for _ in range(3))
    batch = draw(st.lists(st.integers(0, 3), max_size=3))
    dims = []
    for tail in ((m, k), (k, n)):
        own = [size if draw(st.booleans()) else 1 for size in batch]
        dims.append((*own[draw(st.integers(0, len(own))) :], *tail))
    a, b = dims
    if len(a) == 2 and draw(st.integers(0, 3)) == 0:
        a = (k,)
    if len(b) == 2 and draw(st.integers(0, 3)) == 0:
        b = (k,)
    return a, b


@given(shapes=broadcastable(), constant=st.sampled_from(("", "A", "B")), seed=st.integers(0, 2**32 - 1))
def test_any_broadcastable_shapes_are_multiplied_right(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], constant: str, seed: int
) -> None:
    check_matmul(random(shapes[0], seed), random(shapes[1], seed + 1), constant, max_tuning_ms=0.5)


def test_one_session_serves_many_shapes_one_after_the_other() -> None:
    session = quick_session(matmul_model([None, None, None], [None, None, None]))
    for seed, (batch, m, k, n) in enumerate(
        [(1, 1, 1, 1), (2, 3, 4, 5), (1, 64, 64, 64), (3, 1, 128, 17), (0, 2, 3, 4)]
    ):
        a, b = random((batch, m, k), seed), random((batch, k, n), seed + 100)
        check_runs(session, {"A": a, "B": b}, *product(a, b))
    assert tunableop.stats(session).entries == 4


# --- sizes around vector and tile widths


@pytest.mark.parametrize("constant", ["", "B"], ids=["computed_b", "constant_b"])
@pytest.mark.parametrize("k", [1, 3, 16, 65, 257])
def test_tails_of_m_and_n_are_right(k: int, constant: str) -> None:
    """One session for each n; every m runs in it."""
    for n in EDGES:
        b = random((k, n), n)
        constants = {"B": b} if constant else {}
        model = matmul_model([None, k], [k, n], constants=constants)
        session = quick_session(model, max_tuning_ms=0.5)
        for m in (1, 2, 3, 6, 7, 8, 15, 17, 33, 65):
            a = random((m, k), m)
            exact, bound = product(a, b)
            check_runs(session, {"A": a} if constant else {"A": a, "B": b}, exact, bound)


@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 63, 64, 65, 255, 383, 384, 385, 1023, 1025, 2049, 4097])
def test_tails_of_k_are_right(k: int) -> None:
    check_matmul(random((5, k), k), random((k, 19), k + 1), "B")
    check_matmul(random((2, 3, k), k), random((2, k, 70), k + 1))


@pytest.mark.parametrize("constant", ["", "B"], ids=["computed_b", "constant_b"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 192, 96), (1, 512, 640), (37, 131, 300), (8, 1000, 64)])
def test_every_candidate_in_the_race_still_gives_the_right_answer(
    m: int, n: int, k: int, constant: str
) -> None:
    check_matmul(random((m, k), m), random((k, n), n), constant, candidates="all", max_tuning_ms=60.0)


# --- nothing in one dimension or another


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 0), (0, 4)),
        ((0,), (0,)),
        ((0,), (0, 4)),
        ((3, 0), (0,)),
        ((2, 3, 0), (2, 0, 4)),
        ((2, 3, 0), (0, 4)),
        ((3, 0), (2, 0, 4)),
        ((0, 5), (5, 4)),
        ((3, 5), (5, 0)),
        ((0, 3, 5), (5, 4)),
        ((0, 3, 5), (0, 5, 4)),
        ((0, 3, 5), (1, 5, 4)),
        ((3, 5), (0, 5, 4)),
        ((2, 0, 3, 5), (2, 1, 5, 4)),
        ((0, 0), (0, 0)),
    ],
    ids=str,
)
def test_zero_size_dimensions(a: tuple[int, ...], b: tuple[int, ...], dynamic: bool, constant: str) -> None:
    check_matmul(random(a, 1), random(b, 2), constant, dynamic=dynamic)


# --- values that are no numbers


@pytest.mark.parametrize("constant", ["", "B"], ids=["computed_b", "constant_b"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 9, 20), (5, 17, 33), (20, 70, 67)])
def test_nan_and_infinity_reach_exactly_their_row_and_column(
    m: int, k: int, n: int, bad: float, constant: str
) -> None:
    a, b = random((m, k), 1), random((k, n), 2)
    a[m - 1, k - 1] = bad
    check_matmul(a, b, constant)
    a, b = random((m, k), 3), random((k, n), 4)
    b[k - 1, n - 1] = bad
    check_matmul(a, b, constant)


def test_infinity_times_zero_is_nan() -> None:
    a, b = np.zeros((2, 18), np.float32), np.ones((18, 19), np.float32)
    b[17, 18] = np.inf
    check_matmul(a, b)
    check_matmul(a, b, "B")


def test_signed_zeros_and_subnormals_do_no_harm() -> None:
    a = np.full((4, 9), 1e-41, np.float32)
    b = np.full((9, 17), -0.0, np.float32)
    check_matmul(a, b, "B")
    check_matmul(a, np.ones_like(b))


# --- where the operands lie


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 7, 15])
def test_operands_and_result_may_lie_at_any_float_in_memory(offset: int) -> None:
    m, k, n = 7, 37, 29
    session = quick_session(matmul_model(["m", "k"], ["k", "n"]))
    room = np.full(m * k + k * n + m * n + 64, 9.0, np.float32)
    skip = (-room.ctypes.data // 4) % 16 + offset  # `offset` floats after a 64-byte line
    places = {}
    for name, shape in (("A", (m, k)), ("B", (k, n)), ("Y", (m, n))):
        size = math.prod(shape)
        places[name] = room[skip : skip + size].reshape(shape)
        skip += size + 1
    for name in ("A", "B"):
        places[name][...] = random(places[name].shape, offset)
    exact, bound = product(places["A"], places["B"])
    around = room.copy()
    binding = session.io_binding()
    for name in ("A", "B"):
        view = places[name]
        binding.bind_input(name, "cpu", 0, np.float32, view.shape, view.ctypes.data)
    binding.bind_output("Y", "cpu", 0, np.float32, (m, n), places["Y"].ctypes.data)
    for run in range(2):
        places["Y"].fill(np.nan)
        session.run_with_iobinding(binding)
        assert_close(places["Y"], exact, bound, f"run {run}")
    places["Y"][...] = 9.0
    np.testing.assert_array_equal(room, around)  # nothing was written beside the result


def test_views_of_one_buffer_by_ortvalue_are_not_copied_wrong() -> None:
    room = random((200,), 3)
    session = quick_session(matmul_model(["m", "k"], ["k", "n"]))
    binding = session.io_binding()
    a, b = room[1:85].reshape(4, 21), room[3:192].reshape(21, 9)
    binding.bind_ortvalue_input("A", ort.OrtValue.ortvalue_from_numpy(a))
    binding.bind_ortvalue_input("B", ort.OrtValue.ortvalue_from_numpy(b))
    binding.bind_output("Y", "cpu")
    session.run_with_iobinding(binding)
    assert_close(binding.copy_outputs_to_cpu()[0], *product(a, b))


def test_feeds_that_are_not_contiguous() -> None:
    wide = random((40, 60), 8)
    session = quick_session(matmul_model([None, None], [None, None]))
    feeds: list[Feeds] = [
        {"A": wide[::3, ::2], "B": wide.T[5:35, 1:20:2]},
        {"A": wide[::-1, 10:22], "B": wide[1:13, ::-1]},
        {"A": wide.T, "B": wide},
        {"A": np.broadcast_to(wide[:1], (5, 60)), "B": wide.T},
        {"A": np.asfortranarray(wide), "B": np.asfortranarray(wide.T)},
    ]
    for feed in feeds:
        check_runs(session, feed, *product(feed["A"], feed["B"]))


# --- opsets


@pytest.mark.parametrize("opset", [1, 6, 7, 8, 9, 11, 12, 13, 17, onnx.defs.onnx_opset_version()])
def test_every_opset_of_matmul_runs_on_our_provider(opset: int) -> None:
    a, b = random((3, 4, 6), 1), random((6, 5), 2)
    model = matmul_model([3, 4, 6], [6, 5], opset=opset)
    try:
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        pytest.skip(f"onnxruntime {ort.__version__} refuses opset {opset}: {error}")
    session = quick_session(model)
    assert ours(session) == ["MatMul"]
    check_runs(session, {"A": a, "B": b}, *product(a, b))


# --- shapes that do not fit


@pytest.mark.parametrize("constant", ["", "B"], ids=["computed_b", "constant_b"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (5, 6)),
        ((4,), (5,)),
        ((4,), (5, 6)),
        ((3, 4), (5,)),
        ((2, 3, 4), (3, 4, 5)),
        ((2, 3, 4), (2, 5, 6)),
        ((2, 1, 3, 4), (3, 2, 4, 5)),
        ((0, 3, 4), (2, 4, 5)),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_an_error_with_both_shapes(
    a: tuple[int, ...], b: tuple[int, ...], constant: str
) -> None:
    constants = {"B": random(b)} if constant else {}
    model = matmul_model([None] * len(a), [None] * len(b), constants=constants)
    feeds = {"A": random(a)} | ({} if constant else {"B": random(b)})
    with pytest.raises(Exception) as caught:  # noqa: PT011  (onnxruntime's errors have no common base)
        quick_session(model).run(None, feeds)
    text = str(caught.value).replace(" ", "").replace("{", "[").replace("}", "]")
    for shape in (a, b):
        assert str(list(shape)).replace(" ", "") in text, str(caught.value)


@pytest.mark.parametrize(("a", "b"), [((), (4,)), ((4,), ())], ids=str)
def test_scalars_are_an_error(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(Exception, match=r"(?i)scalar|rank|dimension"):
        quick_session(matmul_model(None, None)).run(None, {"A": random(a), "B": random(b)})


def test_a_session_goes_on_after_an_error() -> None:
    a, b = random((3, 4)), random((4, 5))
    session = quick_session(matmul_model([None, None], [None, None]))
    for _ in range(3):
        with pytest.raises(Exception, match="MatMul"):
            session.run(None, {"A": a, "B": random((6, 5))})
        check_runs(session, {"A": a, "B": b}, *product(a, b))
