"""Where nodes and memory are: which device, which provider, which copies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _devices
from support.graphs import matmul_model
from support.sessions import EP, assigned, ours, quick_session, random
from support.tolerance import assert_close, product

from .conftest import Card
from .test_serving import Chain, K


def ran(session: ort.InferenceSession, feeds: dict[str, Any]) -> Counter[tuple[str, str]]:
    """(provider, operator) of what one run ran, from its profile. The session must be made with one."""
    session.run(None, feeds)
    path = Path(session.end_profiling())
    events = json.loads(path.read_text())
    path.unlink()
    return Counter(
        (event["args"]["provider"], event["args"]["op_name"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    )


def with_profile(folder: Path) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    return options


def copies(nodes: Counter[tuple[str, str]]) -> Counter[str]:
    return Counter({op: count for (_, op), count in nodes.items() if op.startswith("Memcpy")})


@pytest.fixture
def beside(card: Card) -> list[Any]:
    if not card.stock:
        pytest.skip(f"onnxruntime {ort.__version__} has no provider of its own for {card.id}")
    return [*_devices.beside(_devices.choose(card.id), "exact"), "CPUExecutionProvider"]


def test_beside_the_stock_provider_there_is_no_copy_but_in_and_out(
    card: Card, beside: list[Any], tmp_path: Path
) -> None:
    chain = Chain()
    session = quick_session(chain.model, sess_options=with_profile(tmp_path), device=card.id)
    assert session.get_providers() == [EP, card.stock, "CPUExecutionProvider"]
    nodes = ran(session, {"X": random((5, K), 1)})
    assert not copies(nodes), nodes
    assert nodes[card.stock, "Relu"] == 1
    assert sum(count for (provider, _), count in nodes.items() if provider == EP) == 2


def test_the_stock_providers_own_precision_is_ours(card: Card, beside: list[Any]) -> None:
    if card.stock != "CUDAExecutionProvider":
        pytest.skip(f"{card.stock} has no option use_tf32")
    for precision, expected in (("exact", "0"), ("tf32", "1")):
        session = quick_session(Chain().model, device=card.id, precision=precision)
        assert session.get_provider_options()[card.stock]["use_tf32"] == expected


def test_before_ours_the_stock_provider_leaves_it_nothing_and_that_is_told(
    card: Card, beside: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    tunableop.register()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider(card.stock, {"device_id": str(card.ordinal)})
    options.add_provider_for_devices([_devices.choose(card.id).ep_device], {})
    session = tunableop.InferenceSession(Chain().model, options)
    assert ours(session) == []
    assert f"put {EP} before it" in caplog.messages[-1]


def test_products_of_two_computed_operands_are_the_stock_providers(card: Card, beside: list[Any]) -> None:
    """It fuses them with what is around them; claim="all" takes them all the same."""
    built = matmul_model(["m", 8], [8, 6])
    assert ours(quick_session(built, device=card.id, claim="auto")) == []
    assert ours(quick_session(built, device=card.id, claim="all")) == ["MatMul"]
    assert ours(quick_session(built, device="cpu", providers=["CPUExecutionProvider"])) == ["MatMul"]


def test_a_captured_graph_is_refused_in_words(card: Card, beside: list[Any]) -> None:
    if card.stock != "CUDAExecutionProvider":
        pytest.skip(f"{card.stock} captures no graphs")
    with pytest.raises(tunableop.OptionError, match="enable_cuda_graph=1: a captured graph takes no nodes"):
        tunableop.InferenceSession(
            Chain().model, device=card.id, providers=[(card.stock, {"enable_cuda_graph": "1"})]
        )


def test_alone_every_product_is_copied_to_and_fro(card: Card, tmp_path: Path) -> None:
    session = quick_session(
        Chain().model,
        sess_options=with_profile(tmp_path),
        device=card.id,
        providers=["CPUExecutionProvider"],
    )
    nodes = ran(session, {"X": random((5, K), 1)})
    assert copies(nodes).total() >= 2, nodes  # at least around the Relu
    assert {provider for (provider, op) in nodes if op == "Relu"} == {"CPUExecutionProvider"}
    assert {provider for (provider, op) in nodes if op in ("MatMul", "Gemm")} == {EP}
    assert {provider for (provider, op) in nodes if op.startswith("Memcpy")} == {EP}


def check(session: ort.InferenceSession, device: str) -> None:
    a, b = random((5, 8), 1), random((8, 6), 2)
    for _ in range(2):
        assert_close(session.run(None, {"A": a})[0], *product(a, b))
    assert ours(session) == ["MatMul"]
    assert tunableop.stats(session).device == device


MODEL = matmul_model(["m", 8], None, constants={"B": random((8, 6), 2)})


def test_every_way_to_the_first_card(card: Card) -> None:
    first = _devices.listed()[0].id
    check(quick_session(MODEL), first)
    check(quick_session(MODEL, device=card.id), card.id)
    check(quick_session(MODEL, device=card.backend), f"{card.backend}:0")
    check(tunableop.InferenceSession(MODEL, tunableop.session_options(device=card.id)), card.id)
    plain = ort.SessionOptions()
    plain.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    check(
        ort.InferenceSession(MODEL.SerializeToString(), plain, providers=[EP, "CPUExecutionProvider"]), first
    )
    by_device = ort.SessionOptions()
    by_device.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    by_device.add_provider_for_devices([_devices.choose(card.id).ep_device], {})
    check(ort.InferenceSession(MODEL.SerializeToString(), by_device), card.id)


def test_every_device_of_the_machine(card: Card) -> None:
    """One session on each, alive at once, the CPU too."""
    ids = [device.id for device in tunableop.devices() if device.libraries]
    assert card.id in ids
    assert ids[-1] == "cpu"
    sessions = [quick_session(MODEL, device=id) for id in ids]
    for session, id in zip(sessions, ids, strict=True):
        check(session, id)


def test_a_card_that_is_not_there(card: Card) -> None:
    with pytest.raises(tunableop.NoDeviceError) as caught:
        tunableop.InferenceSession(MODEL, device=f"{card.backend}:99")
    assert card.id in str(caught.value)


def test_libraries_and_kernels_are_those_of_the_card(card: Card) -> None:
    (device,) = [device for device in tunableop.devices() if device.id == card.id]
    session = quick_session(MODEL, device=card.id)
    session.run(None, {"A": random((5, 8), 1)})
    (shape,) = tunableop.explain(session).shapes
    assert shape.kernel.partition(":")[0] in device.libraries
    only = next(iter(device.libraries))
    session = quick_session(MODEL, device=card.id, candidates=only)
    check(session, card.id)
    with pytest.raises(tunableop.OptionError, match=f"candidates.*{only}.*found 'openblas'"):
        tunableop.InferenceSession(MODEL, device=card.id, candidates="openblas")


def test_a_precision_is_never_lossy_unless_asked(card: Card) -> None:
    """Values that TF32 and bf16 cannot hold come through exact, and do not when rounding was asked for."""
    a = np.full((16, 64), 1 + 2.0**-12, np.float32)
    b = np.eye(64, dtype=np.float32)[:, :32].copy()
    built = matmul_model([16, 64], None, constants={"B": b})
    got = {}
    for precision in ("exact", "tf32", "bf16"):
        session = quick_session(built, device=card.id, precision=precision)
        got[precision] = session.run(None, {"A": a})[0]
    np.testing.assert_array_equal(got["exact"], a[:, :32])
    for precision, step in (("tf32", 2.0**-10), ("bf16", 2.0**-7)):
        assert np.abs(got[precision] - 1).max() <= step + 2.0**-12


def test_what_assigned_says_agrees_with_explain(card: Card) -> None:
    session = quick_session(Chain().model, device=card.id)
    claimed = sorted(node.op_type for node in tunableop.explain(session).nodes if node.claimed)
    assert (
        claimed == sorted(op for provider, op, _ in assigned(session) if provider == EP) == ["Gemm", "MatMul"]
    )
