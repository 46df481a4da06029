"""Where data lies in sessions on a card, who waits for whom, and that memory comes back."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from support import narrow
from support.cards import (
    BOTH,
    card_session,
    count,
    empty_on_card,
    ep_devices,
    faults,
    memory_used,
    on_card,
    since,
    value_on_card,
)
from support.graphs import gemm_model, graph, matmul_model, model, value

Array = npt.NDArray[Any]
W = narrow.random((8, 8), "fp32", 5)


def chain(length: int, weight: Array = W) -> onnx.ModelProto:
    """X times the same weight, over and over."""
    names = ["X", *(f"x{i}" for i in range(1, length)), "Y"]
    nodes = [
        helper.make_node("MatMul", [names[i], "W"], [names[i + 1]], name=f"matmul{i}") for i in range(length)
    ]
    k = weight.shape[0]
    return model(graph(nodes, [value("X", ["m", k])], [value("Y", ["m", k])], {"W": weight}))


def product(x: Array, length: int, weight: Array = W) -> Array:
    for _ in range(length):
        x = x @ weight
    return x


def close(got: Array, expected: Array, what: str = "") -> None:
    scale = float(np.abs(expected).max()) or 1.0
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * scale, err_msg=what)


def alternating() -> tuple[onnx.ModelProto, Array]:
    """CPU, card, CPU, card, CPU: a copy at each border."""
    nodes = [
        helper.make_node("Relu", ["X"], ["a"]),
        helper.make_node("MatMul", ["a", "W"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "W"], ["d"]),
        helper.make_node("Neg", ["d"], ["Y"]),
    ]
    x = narrow.random((3, 8), "fp32", 6)
    return model(graph(nodes, [value("X", ["m", 8])], [value("Y")], {"W": W})), x


@on_card(*BOTH)
def test_numpy_in_and_out() -> None:
    session = card_session(chain(5))
    for rows in (1, 3, 64):
        x = narrow.random((rows, 8), "fp32", rows)
        close(session.run(None, {"X": x})[0], product(x, 5))


@on_card(*BOTH)
def test_values_on_the_card_are_used_where_they_are() -> None:
    session = card_session(chain(5))
    x = narrow.random((3, 8), "fp32", 1)
    on_card_x, on_card_y = value_on_card(x), empty_on_card((3, 8), np.float32)
    assert on_card_x.device_name() != "cpu"
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", on_card_x)
    binding.bind_ortvalue_output("Y", on_card_y)
    for _ in range(2):  # the second allocates what the first found out to be needed at once
        session.run_with_iobinding(binding)
    before = count("copies"), count("mallocs")
    for step in range(1, 4):
        session.run_with_iobinding(binding)
        assert (count("copies"), count("mallocs")) == before, "a bound run copies and allocates nothing"
        close(on_card_y.numpy(), product(x, 5))
        x = narrow.random((3, 8), "fp32", step)
        on_card_x.update_inplace(x)
        session.run_with_iobinding(binding)
        close(on_card_y.numpy(), product(x, 5))
        before = count("copies"), count("mallocs")


@on_card(*BOTH)
def test_a_second_run_of_a_shape_allocates_nothing() -> None:
    session = card_session(chain(12))
    x = narrow.random((32, 8), "fp32", 1)
    for _ in range(3):
        session.run(None, {"X": x})
    before = count("mallocs"), count("frees")
    for _ in range(5):
        close(session.run(None, {"X": x})[0], product(x, 12))
    assert (count("mallocs"), count("frees")) == before


@on_card(*BOTH)
def test_nodes_on_the_cpu_and_on_the_card_alternate() -> None:
    body, x = alternating()
    session = card_session(body)
    expected = -(np.maximum(np.maximum(x, 0) @ W, 0) @ W)
    for _ in range(5):
        close(session.run(None, {"X": x})[0], expected)
    assert count("illegal_address") == 0


@on_card(*BOTH)
def test_six_threads_share_a_session() -> None:
    sessions = [card_session(chain(6)), card_session(alternating()[0])]
    x = {rows: narrow.random((rows, 8), "fp32", rows) for rows in (1, 2, 5, 16, 33, 70)}
    expected = [
        {rows: product(array, 6) for rows, array in x.items()},
        {rows: -(np.maximum(np.maximum(array, 0) @ W, 0) @ W) for rows, array in x.items()},
    ]
    failures: list[str] = []

    def serve(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(60):
                rows = int(rng.choice(list(x)))
                which = int(rng.integers(2))
                got = sessions[which].run(None, {"X": x[rows]})[0]
                close(got, expected[which][rows], f"{rows} rows, session {which}")
        except BaseException as error:
            failures.append(str(error))

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert count("illegal_address") == 0


@on_card(*BOTH)
def test_six_threads_with_bound_values() -> None:
    session = card_session(chain(4))
    failures: list[str] = []

    def serve(seed: int) -> None:
        try:
            for step in range(20):
                x = narrow.random((seed + 1, 8), "fp32", 100 * seed + step)
                binding = session.io_binding()
                output = empty_on_card(x.shape, np.float32)
                binding.bind_ortvalue_input("X", value_on_card(x))
                binding.bind_ortvalue_output("Y", output)
                session.run_with_iobinding(binding)
                close(output.numpy(), product(x, 4), f"{seed}, {step}")
        except BaseException as error:
            failures.append(str(error))

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@on_card(*BOTH)
def test_two_cards_side_by_side() -> None:
    x = narrow.random((9, 8), "fp32", 1)
    first, second = card_session(chain(3), 0), card_session(chain(3), 1)
    assert memory_used(0) > 0
    assert memory_used(1) > 0
    for _ in range(3):
        close(first.run(None, {"X": x})[0], product(x, 3))
        close(second.run(None, {"X": x})[0], product(x, 3))
    there = value_on_card(x, 1)
    output = empty_on_card((9, 8), np.float32, 1)
    binding = second.io_binding()
    binding.bind_ortvalue_input("X", there)
    binding.bind_ortvalue_output("Y", output)
    second.run_with_iobinding(binding)
    close(output.numpy(), product(x, 3))
    # From one card to the other.
    ort.copy_tensors([there], [moved := empty_on_card((9, 8), np.float32, 0)])
    np.testing.assert_array_equal(moved.numpy(), x)


@on_card(*BOTH)
def test_a_session_gives_everything_back() -> None:
    ep_devices()
    x = narrow.random((200, 8), "fp32", 1)
    session = card_session(chain(3))
    session.run(None, {"X": x})
    del session
    gc.collect()
    used = memory_used(0)
    streams = count("streams") - count("streams_destroyed")
    handles = count("handles") - count("handles_destroyed")
    for _ in range(3):
        session = card_session(chain(3))
        for rows in (1, 50, 200):
            session.run(None, {"X": x[:rows]})
        assert memory_used(0) > used
        del session
        gc.collect()
        assert memory_used(0) == used
        assert count("streams") - count("streams_destroyed") == streams
        assert count("handles") - count("handles_destroyed") == handles
    assert count("misuse") == 0


@since(30, "has no allocator for outputs that are bound to a card by its name")
@on_card("cuda13")
def test_results_outlive_their_session() -> None:
    x = narrow.random((7, 8), "fp32", 1)
    session = card_session(chain(3))
    binding = session.io_binding()
    binding.bind_cpu_input("X", x)
    binding.bind_output("Y", "cuda", 0)
    session.run_with_iobinding(binding)
    output = binding.get_outputs()[0]
    assert output.device_name() == "cuda"
    del session, binding
    gc.collect()
    close(output.numpy(), product(x, 3))
    held = memory_used(0)
    del output
    gc.collect()
    assert memory_used(0) < held


@on_card(*BOTH, SIM_GPU_MEMORY=str(96 << 20))
def test_what_one_session_keeps_is_given_to_another_that_needs_it() -> None:
    wide = narrow.random((1024, 1024), "fp32", 2)
    x = narrow.random((3000, 1024), "fp32", 1)  # 12 MB
    first, second = card_session(chain(2, wide)), card_session(chain(2, wide))
    for _ in range(2):
        for session in (first, second):
            close(session.run(None, {"X": x})[0], product(x, 2, wide))
            close(session.run(None, {"X": x[:2500]})[0], product(x[:2500], 2, wide))


@on_card(*BOTH, SIM_GPU_MEMORY=str(64 << 20))
def test_a_card_without_memory_says_so_and_goes_on() -> None:
    wide = narrow.random((1024, 1024), "fp32", 2)
    session = card_session(chain(2, wide))
    x = narrow.random((100, 1024), "fp32", 1)
    close(session.run(None, {"X": x})[0], product(x, 2, wide))
    large = np.zeros((40000, 1024), np.float32)  # 160 MB
    with pytest.raises(Exception, match=r"memory") as caught:
        session.run(None, {"X": large})
    assert "are free" in str(caught.value) or "alloc" in str(caught.value).lower()
    close(session.run(None, {"X": x})[0], product(x, 2, wide))


@on_card(*BOTH)
def test_an_allocation_that_fails_in_the_middle_of_a_run() -> None:
    session = card_session(chain(3))
    x = narrow.random((4, 8), "fp32", 1)
    close(session.run(None, {"X": x})[0], product(x, 3))
    large = narrow.random((4096, 8), "fp32", 2)
    faults("oom_above:100000")
    for _ in range(3):
        with pytest.raises(Exception, match="memory"):
            session.run(None, {"X": large})
        close(session.run(None, {"X": x})[0], product(x, 3))
    faults("")
    close(session.run(None, {"X": large})[0], product(large, 3))
    # One that fails, and does not once what is kept has gone back to the card.
    for n in range(1, 4):
        larger = narrow.random((5000 * n, 8), "fp32", n)
        faults(f"oom:{n}")
        close(session.run(None, {"X": larger})[0], product(larger, 3))


@on_card(*BOTH)
def test_whatever_asks_for_memory_gets_what_others_keep() -> None:
    keeping = card_session(chain(3))
    rows = narrow.random((300, 8), "fp32", 1)
    x, column = narrow.random((7, 8), "fp32", 2), narrow.random((7, 1), "fp32", 3)
    # C is added by a product with ones, which the session allocates itself.
    body = gemm_model(["m", 8], None, ["m", 1], constants={"B": W})
    for n in range(1, 10):
        close(keeping.run(None, {"X": rows})[0], product(rows, 3))
        faults(f"oom:{n}")
        session = card_session(body)
        close(session.run(None, {"A": x, "C": column})[0], x @ W + column, f"allocation {n}")
        faults("")


@on_card(*BOTH)
def test_half_the_workspace_is_better_than_none() -> None:
    faults(f"oom_above:{16 << 20}")  # 32 MiB are refused, 8 MiB are not
    session = card_session(chain(2))
    x = narrow.random((4, 8), "fp32", 1)
    close(session.run(None, {"X": x})[0], product(x, 2))
    faults(f"oom_above:{1 << 20}")
    session = card_session(chain(2))
    close(session.run(None, {"X": x})[0], product(x, 2))


@since(28, "cannot make a value in the memory of a device")
@on_card(*BOTH)
def test_page_locked_memory_is_a_place_for_results_too() -> None:
    session = card_session(matmul_model(["m", 8], None, constants={"B": W}))
    place = ep_devices()[0].memory_info(ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    x = narrow.random((5, 8), "fp32", 1)
    output = ort.OrtValue.ortvalue_from_shape_and_type((5, 8), np.float32, memory_info=place)
    binding = session.io_binding()
    binding.bind_cpu_input("A", x)
    binding.bind_ortvalue_output("Y", output)
    session.run_with_iobinding(binding)
    close(output.numpy(), x @ W)


@since(25, "does not ask a plugin provider to wait")
@on_card(*BOTH)
def test_waiting_is_left_to_the_caller_where_the_run_says_so() -> None:
    session = card_session(chain(4))
    x = narrow.random((5, 8), "fp32", 1)
    output = empty_on_card((5, 8), np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", value_on_card(x))
    binding.bind_ortvalue_output("Y", output)
    session.run_with_iobinding(binding)
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    before = count("syncs")
    for _ in range(3):
        session.run_with_iobinding(binding, options)
    assert count("syncs") == before
    binding.synchronize_outputs()
    assert count("syncs") > before
    close(output.numpy(), product(x, 4))
