"""Which cards there are, which one a session gets, and cards that are none or are lost."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _control
from support import narrow
from support.cards import (
    BOTH,
    FLAVOURS,
    backend,
    card_session,
    control,
    count,
    empty_on_card,
    ep_devices,
    faults,
    flavour,
    folder,
    memory_used,
    on_card,
    value_on_card,
)
from support.graphs import matmul_model
from support.sessions import EP, needs_names, ours
from support.waiting import until, until_stats

B = narrow.random((8, 5), "fp32", 2)
A = narrow.random((3, 8), "fp32", 1)
MODEL = matmul_model(["m", 8], None, constants={"B": B})


def right(session: ort.InferenceSession) -> None:
    np.testing.assert_allclose(session.run(None, {"A": A})[0], A @ B, rtol=1e-4, atol=1e-5)


def plain(given: ort.OrtEpDevice, threads: int = 0, **options: str) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.add_provider_for_devices([given], {"tuning": "off"} | options)
    return ort.InferenceSession(MODEL.SerializeToString(), settings, enable_fallback=0)


@on_card(*FLAVOURS)
def test_cards_come_first_and_say_what_they_are() -> None:
    *cards, cpu = ep_devices()
    assert len(cards) == 2
    for number, card in enumerate(cards):
        assert card.device.type == ort.OrtHardwareDeviceType.GPU
        assert card.device.vendor_id == (0x10DE if backend() == "cuda" else 0x1002)
        metadata = card.ep_metadata
        assert metadata["backend"] == backend()
        assert metadata["device_id"] == str(number)
        assert metadata["name"]
        assert re.fullmatch(r"sm_\d+|gfx[0-9a-f]+", metadata["arch"])
    assert cpu.device.type == ort.OrtHardwareDeviceType.CPU
    assert "backend" not in cpu.ep_metadata
    right(plain(cpu))
    assert count("kernels") == 0


@on_card(None)
def test_without_cards_there_is_the_cpu() -> None:
    (cpu,) = ep_devices()
    assert cpu.device.type == ort.OrtHardwareDeviceType.CPU
    right(plain(cpu))
    right(plain(cpu, device="auto"))
    right(plain(cpu, device="cpu"))
    for device in ("cuda", "cuda:0", "hip", "hip:1"):
        with pytest.raises(Exception, match=rf"'{device}' was asked for, and there is none: lib") as caught:
            plain(cpu, device=device)
        library = "libcudart" if device.startswith("cuda") else "libamdhip64"
        assert library in str(caught.value)


@needs_names
@on_card(*BOTH)
def test_by_name_the_first_card_is_used() -> None:
    ep_devices()
    session = ort.InferenceSession(
        MODEL.SerializeToString(), providers=[(EP, {"tuning": "off"}), "CPUExecutionProvider"]
    )
    assert session.get_providers()[0] == EP
    right(session)
    assert count("kernels") > 0


@on_card(*BOTH)
def test_the_option_device_has_to_agree_with_what_onnxruntime_gave() -> None:
    first, second, cpu = ep_devices()
    name = backend()
    other = "hip" if name == "cuda" else "cuda"
    right(plain(first, device=name))
    right(plain(first, device=f"{name}:0"))
    right(plain(second, device=f"{name}:1"))
    right(plain(second, device="auto"))
    for device, option, given in (
        (first, f"{name}:1", f"{name}:0"),
        (second, f"{name}:0", f"{name}:1"),
        (first, "cpu", f"{name}:0"),
        (cpu, name, "cpu"),
    ):
        match = f"'{option}' was asked for, and ONNX Runtime gave this session {given}; use tunableop.Infer"
        with pytest.raises(Exception, match=re.escape(match)):
            plain(device, device=option)
    with pytest.raises(Exception, match=f"'{name}:7' was asked for, and there is none: this machine has"):
        plain(first, device=f"{name}:7")
    with pytest.raises(Exception, match=f"'{other}' was asked for, and there is none: lib"):
        plain(first, device=other)


@on_card(*BOTH)
def test_a_session_runs_on_one_device() -> None:
    devices = ep_devices()
    for given in (devices, devices[:2]):
        settings = ort.SessionOptions()
        settings.add_provider_for_devices(given, {})
        with pytest.raises(Exception, match="runs a session on one device, and was given"):
            ort.InferenceSession(MODEL.SerializeToString(), settings, enable_fallback=0)


@pytest.mark.parametrize("fault", ["no_driver", "old_driver", "no_cards"])
@on_card(*BOTH)
def test_a_card_that_cannot_be_used_is_none(fault: str) -> None:
    os.environ["SIM_GPU_FAULTS"] = fault
    (cpu,) = ep_devices()
    right(plain(cpu))
    with pytest.raises(Exception, match=f"'{backend()}' was asked for, and there is none") as caught:
        plain(cpu, device=backend())
    assert re.search("driver|no card", str(caught.value))


@on_card(*BOTH)
def test_unregistering_and_registering_again() -> None:
    for _ in range(3):
        session = card_session(MODEL)
        right(session)
        del session
        gc.collect()
        tunableop.unregister()
    right(card_session(MODEL))
    assert count("misuse") == 0


@on_card(*BOTH)
def test_a_session_lives_on_when_the_library_is_unregistered() -> None:
    session = card_session(MODEL)
    tunableop.unregister()
    right(session)
    del session
    gc.collect()


@on_card(*BOTH)
def test_a_kernel_that_fails_is_an_error_and_not_a_run_on_the_cpu() -> None:
    session = card_session(MODEL)
    right(session)
    faults("execution_failed")
    for _ in range(2):
        with pytest.raises(Exception, match="MatMul"):
            session.run(None, {"A": A})
    assert session.get_providers()[0] == EP
    faults("")
    right(session)


@on_card(*BOTH)
def test_a_lost_card_is_an_error_and_sessions_end() -> None:
    sessions = [card_session(MODEL), card_session(MODEL), card_session(MODEL, 1)]
    for session in sessions:
        right(session)
    held = value_on_card(A)
    binding = sessions[0].io_binding()
    binding.bind_ortvalue_input("A", held)
    binding.bind_ortvalue_output("Y", empty_on_card((3, 5), np.float32))
    faults("lost:1")
    with pytest.raises(Exception, match=r"lost|launch|address|unspecified"):
        sessions[0].run_with_iobinding(binding)
    faults("")
    for session in sessions[:2]:
        for _ in range(2):
            with pytest.raises(Exception, match=f"{backend()}:0 is lost until this process ends"):
                session.run(None, {"A": A})
    with pytest.raises(Exception, match="lost"):
        card_session(MODEL)
    right(sessions[2])  # the other card
    with pytest.raises(Exception, match="lost"):
        held.numpy()
    del sessions, binding, held
    gc.collect()


@pytest.mark.parametrize("tuning", ["online", "background"])
@on_card(*BOTH)
def test_what_a_kernel_that_does_not_end_keeps_the_card_from_holds_nobody_up(tuning: str) -> None:
    # To give memory back waits for the whole card, at both vendors.
    ep_devices()
    held = [value_on_card(A)]
    used = memory_used()
    sessions = [card_session(MODEL, tuning=tuning, max_tuning_ms=0.01)]
    if tuning == "background":
        _control._ask(sessions[0], "collect", on=True)  # what the background would do, here
        right(sessions[0])
    faults("hang")
    if tuning == "online":
        with pytest.raises(Exception, match="did not end within"):
            sessions[0].run(None, {"A": A})
    else:
        assert "did not end within" in _control._ask(sessions[0], "tune_pending", max_problems=1)["last"]
    assert count("hanging") >= 1
    sessions.clear()
    gc.collect()
    for _ in range(2):
        held = [value_on_card(A)]
        held.clear()
        session = card_session(MODEL)
        del session
        gc.collect()
    control().sim_gpu_release()  # it ends after all
    faults("")
    session = card_session(MODEL)
    right(session)
    del session
    gc.collect()
    # What the kernel might have used stays: its workspace, and what it was measured with.
    kept = memory_used()
    assert kept - used < 80 << 20
    session = card_session(MODEL)
    right(session)
    del session
    gc.collect()
    assert memory_used() == kept


@on_card(*BOTH)
def test_the_background_does_not_measure_on_a_card_that_serves() -> None:
    # That processors are idle says nothing of a card.
    session = card_session(MODEL, tuning="background", max_tuning_ms=0.01)
    faults("real_slow:50")
    failures: list[str] = []
    ends = threading.Event()

    def serve() -> None:
        try:
            while not ends.is_set():
                right(session)
        except BaseException as error:
            failures.append(str(error))

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: tunableop.stats(session).pending > 0, "the problem waits")
        for _ in range(20):
            assert tunableop.stats(session).tuned == 0
            ends.wait(0.05)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
    faults("")
    until_stats(session, tuned=1)


@on_card(*BOTH)
def test_a_forked_child_is_told_that_it_cannot_use_the_card() -> None:
    card, _, cpu = ep_devices()
    session = plain(card, threads=1)  # onnxruntime waits for threads that a child does not have
    right(session)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            right(plain(cpu, threads=1))
            try:
                plain(card)
            except Exception as error:
                code = 0 if "forked" in str(error) and "spawn" in str(error) else 2
            del session
            gc.collect()  # the parent's session ends here as well, and must not touch the card
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    right(session)


@on_card(*BOTH)
def test_a_card_that_had_no_memory_for_a_librarys_handle_is_asked_again() -> None:
    ep_devices()
    faults("no_handles")
    session = card_session(MODEL)
    assert ours(session) == ["MatMul"]  # they are not asked what they are known to have
    with pytest.raises(Exception, match=r"(cublasLtCreate|rocblas_create_handle): |no memory"):
        right(session)
    faults("")
    right(session)
    library = "cublaslt" if backend() == "cuda" else "hipblaslt"
    session = card_session(MODEL, candidates=library)
    assert ours(session) == ["MatMul"]
    right(session)
    (shape,) = tunableop.explain(session).shapes
    assert shape.kernel.startswith(library)


def only_hipblaslt() -> None:
    """No rocBLAS: then a card that hipBLASLt has no kernels for cannot be used."""
    place = Path(tempfile.mkdtemp())
    for name in ("libamdhip64.so.7", "libhipblaslt.so.1"):
        (place / name).symlink_to(folder(flavour()) / name)
    os.environ["TUNABLEOP_ROCM_PATH"] = str(place)


@on_card("rocm7", SIM_GPU_FAULTS="lt_unsupported")
def test_a_card_that_turns_out_to_be_of_no_use_is_not_taken_for_auto() -> None:
    only_hipblaslt()
    reason = "hipblaslt 1.1.0.* has no kernels for gfx942"
    (first, _, cpu) = tunableop.devices()
    assert first.id == "hip:0"
    assert first.libraries == {}
    assert re.search(reason, first.missing["libhipblaslt"])
    assert cpu.id == "cpu"
    session = tunableop.InferenceSession(MODEL, tuning="off")
    assert tunableop.explain(session).nodes[0].claimed
    right(session)
    assert count("kernels") == 0
    for device in ("hip", "hip:0", "hip:1"):
        with pytest.raises(tunableop.NoDeviceError, match=f"cannot be used: .*{reason}"):
            tunableop.InferenceSession(MODEL, device=device)


@on_card("cuda12", "cuda13", SIM_GPU_ARCH="sm_150", SIM_GPU_FAULTS="lt_unsupported")
def test_nothing_is_claimed_for_a_newer_card_than_its_library_knows() -> None:
    session = tunableop.InferenceSession(MODEL, device="cuda", tuning="off")
    (node,) = tunableop.explain(session).nodes
    assert not node.claimed
    assert "fp32 has no kernel on " in node.reason, node.reason
    right(session)
    assert count("kernels") == 0


def no_crash_at_exit(done: subprocess.CompletedProcess[str]) -> None:
    assert "still here" in done.stdout


@on_card(*BOTH, check=no_crash_at_exit)
def test_a_process_may_end_with_sessions_open() -> None:
    globals()["kept"] = [card_session(MODEL), card_session(MODEL, 1), value_on_card(A)]
    right(globals()["kept"][0])
    print("still here", flush=True)


@on_card(*BOTH)
def test_the_nodes_of_a_session_on_a_card_are_ours() -> None:
    assert ours(card_session(MODEL)) == ["MatMul"]
    assert control().sim_gpu_count(b"kernels") == 0
