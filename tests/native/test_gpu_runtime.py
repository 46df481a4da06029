"""Cards through the simulated runtimes of both vendors, each release in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.built import FOLDER, built

CUDA = ["cuda12", "cuda13"]
ROCM = ["rocm6", "rocm7", "rocm10"]
RUNTIMES = {
    "cuda12": "libcudart.so.12",
    "cuda13": "libcudart.so.13",
    "rocm6": "libamdhip64.so.6",
    "rocm7": "libamdhip64.so.7",
    "rocm10": "libamdhip64.so.7",
}

PREAMBLE = f"""
import ctypes, json, sys
sys.path.insert(0, {str(FOLDER)!r})
import numpy as np
import tunableop_native_tests as native

def cards():
    return [gpu["device"] for gpu in native.vendor_cards()]
"""


def folder(flavour: str) -> Path:
    return built(f"gpu_sim/{flavour}/{RUNTIMES[flavour]}").parent


def run(
    script: str, cuda: Path | str = "/none", rocm: Path | str = "/none", **env: str
) -> subprocess.CompletedProcess[str]:
    """With these folders of the vendors' libraries and no others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNABLEOP_")}
    clean.update(TUNABLEOP_CUDA_PATH=str(cuda), TUNABLEOP_ROCM_PATH=str(rocm), **env)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PREAMBLE + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean,
        check=False,
    )
    assert done.returncode == 0, f"return code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def on(flavour: str, script: str, **env: str) -> str:
    """On the simulated cards of one flavour. `runtime` is its library, `call(...)` calls of it."""
    vendor = "cuda" if flavour in CUDA else "rocm"
    helpers = f"""
runtime = ctypes.CDLL({str(folder(flavour) / RUNTIMES[flavour])!r})
PREFIX = {"cuda" if vendor == "cuda" else "hip"!r}

def call(name, *arguments):
    return getattr(runtime, PREFIX + name)(*arguments)

def current():
    number = ctypes.c_int(-7)
    assert call("GetDevice", ctypes.byref(number)) == 0
    return number.value

def count(what):
    runtime.sim_gpu_count.restype = ctypes.c_int64
    return runtime.sim_gpu_count(what.encode())

def faults(specification):
    runtime.sim_gpu_set_faults(specification.encode())
"""
    return run(helpers + textwrap.dedent(script), **{vendor: folder(flavour)}, **env).stdout  # type: ignore[arg-type]


def seen(**where: Any) -> tuple[dict[str, Any], list[Any]]:
    """What is found: the lines of the libraries, and of each card what it says and its libraries."""
    script = """
        found = [[gpu["device"].describe(), gpu["backends"], gpu["reason"]] for gpu in native.vendor_cards()]
        print(json.dumps([native.vendor_libraries(), found]))
    """
    lines, cards = json.loads(run(script, **where).stdout)
    return lines, cards


@pytest.fixture(params=CUDA + ROCM)
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


VERSIONS = {"cuda12": "12.8", "cuda13": "13.0", "rocm6": "6.3", "rocm7": "7.1", "rocm10": "7.15"}


def test_what_is_found(flavour: str) -> None:
    cuda = flavour in CUDA
    lines, cards = seen(**{"cuda" if cuda else "rocm": folder(flavour)})
    assert list(lines) == ["libcudart", "libcublasLt", "libamdhip64", "libhipblaslt", "librocblas"]
    runtime = "libcudart" if cuda else "libamdhip64"
    ours = ["libcublasLt"] if cuda else ["libhipblaslt", "librocblas"]
    assert lines[runtime]["available"]
    assert lines[runtime]["identity"] == VERSIONS[flavour]
    assert lines[runtime]["path"] == str(folder(flavour) / RUNTIMES[flavour])
    for name in ours:
        assert lines[name]["available"], lines[name]
        assert lines[name]["identity"]
        assert lines[name]["path"].startswith(str(folder(flavour)))
        assert not lines[name]["reason"]
    for name in set(lines) - {runtime, *ours}:
        assert not lines[name]["available"]
        assert lines[name]["reason"]
    assert [card["ordinal"] for card, _, _ in cards] == [0, 1]
    for card, backends, reason in cards:
        assert backends == [name.removeprefix("lib").lower() for name in ours]  # the default's first
        assert not reason
        assert card["backend"] == ("cuda" if cuda else "hip")
        assert card["vendor_id"] == (0x10DE if cuda else 0x1002)
        assert card["name"] == ("Simulated H200" if cuda else "Simulated MI300X")
        assert card["arch"] == ("sm_90" if cuda else "gfx942")
        assert card["compute_units"] == (132 if cuda else 304)
        assert card["memory_bytes"] == 1 << 30
        assert card["cache_bytes"] == 4 << 20
        assert card["driver_version"] > 0
        assert card["runtime_version"] > 0
    addresses = [card["pci_bus_id"] for card, _, _ in cards]
    assert len(set(addresses)) == 2
    assert all(address == address.lower() and len(address) == 12 for address in addresses)


def test_copies_and_fills(flavour: str) -> None:
    """Ordinary and page-locked memory, and between places on the card; nothing is left behind."""
    on(
        flavour,
        """
        for device in cards():
            stream = device.create_stream()
            there = np.random.default_rng(1).standard_normal(100_003).astype(np.float32)
            back = np.zeros_like(there)
            first, second = device.allocate(there.nbytes), device.allocate(there.nbytes)
            assert first % 256 == 0 and second % 256 == 0
            device.upload(first, there, stream)
            there_before = there.copy()
            there[:] = -1  # the host's side is done with
            device.copy(second, first, there.nbytes, stream)
            device.download(back, second, stream)
            device.synchronize(stream)
            np.testing.assert_array_equal(back, there_before)
            device.fill(second, 0xA5, there.nbytes, stream)
            device.download(back, second, stream)
            device.synchronize(stream)
            assert set(back.tobytes()) == {0xA5}
            pinned = device.allocate_host(4096)
            host = np.ctypeslib.as_array((ctypes.c_uint8 * 4096).from_address(pinned))
            device.upload(first, np.arange(4096, dtype=np.uint8), stream)
            device.download(host, first, stream)
            device.synchronize(stream)
            assert (host == np.arange(4096).astype(np.uint8)).all()
            nothing = np.zeros(0, np.float32)
            device.upload(first, nothing, stream)
            device.fill(first, 1, 0, stream)
            empty = device.allocate(0)
            assert empty != 0
            free, total = device.memory_info()
            assert 0 < free < total == 1 << 30
            for memory in (first, second, empty, 0):
                device.free(memory)
            device.free_host(pinned)
            device.free_host(0)
            device.destroy_stream(stream)
            assert device.memory_info()[0] == total
        assert count("mallocs") == count("frees")
        assert count("streams") == count("streams_destroyed")
        assert count("misuse") == 0
        """,
    )


def test_events_are_timed_and_streams_wait_for_them(flavour: str) -> None:
    on(
        flavour,
        """
        device = cards()[1]
        one, other = device.create_stream(), device.create_stream()
        begin, end = device.create_event(), device.create_event()
        memory = device.allocate(64 << 20)
        waited = 0
        for _ in range(50):
            device.record_event(begin, one)
            device.fill(memory, 1, 64 << 20, one)
            device.record_event(end, one)
            waited += not device.query_event(end)  # not yet is no error ...
            device.wait_event(other, end)
            device.fill(memory, 2, 1 << 20, other)  # after the first fill
            device.synchronize(other)
            assert device.query_event(end)
            device.synchronize_event(end)
            assert device.elapsed_ms(begin, end) > 0
            read = np.zeros(2 << 20, np.uint8)
            device.download(read, memory, other)
            device.synchronize(other)
            assert (read[: 1 << 20] == 2).all() and (read[1 << 20 :] == 1).all()
        assert waited > 0
        assert call("PeekAtLastError") == 0  # ... and does not stay on the thread
        for event in (begin, end, 0):
            device.destroy_event(event)
        for stream in (one, other, 0):
            device.destroy_stream(stream)
        device.free(memory)
        assert count("events") == count("events_destroyed")
        assert count("misuse") == 0
        """,
    )


def test_the_threads_current_card_stays(flavour: str) -> None:
    on(
        flavour,
        """
        first, second = cards()
        for before in (0, 1):
            assert call("SetDevice", before) == 0
            for device in (first, second):
                stream, event, memory = device.create_stream(), device.create_event(), device.allocate(64)
                device.fill(memory, 1, 64, stream)
                device.record_event(event, stream)
                device.is_capturing(stream)
                device.synchronize(stream)
                device.memory_info()
                device.destroy_event(event)
                device.destroy_stream(stream)
                device.free(memory)
                assert current() == before
                was = device.make_current()
                assert (was, current()) == (before, device.describe()["ordinal"])
                device.restore(was)
                assert current() == before
        # A failure puts it back as well.
        faults("oom:1")
        try:
            first.allocate(64)
            raise SystemExit("no error")
        except MemoryError:
            assert current() == 1
        """,
    )


def test_threads_on_both_cards(flavour: str) -> None:
    on(
        flavour,
        """
        assert native.hammer_cards(cards(), 4, 40) == 0
        assert count("mallocs") == count("frees")
        assert count("misuse") == 0
        """,
    )


def test_out_of_memory_is_told_and_leaves_nothing_behind(flavour: str) -> None:
    on(
        flavour,
        """
        device = cards()[0]
        for allocate in (device.allocate, device.allocate_host):
            faults("oom_above:1000000" if allocate == device.allocate else "oom:1")
            try:
                allocate(2_000_000)
                raise SystemExit("no error")
            except MemoryError as error:
                words = str(error)
            assert "2000000" in words and PREFIX + ":0" in words and PREFIX + "Error" in words, words
            assert call("PeekAtLastError") == 0
            assert not device.lost
            faults("")
        device.free(device.allocate(2_000_000))
        """,
    )


def test_a_lost_card_says_so_and_the_other_one_works(flavour: str) -> None:
    on(
        flavour,
        """
        device, other = cards()
        stream, event = device.create_stream(), device.create_event()
        memory = device.allocate(4096)
        handle, graph, ready = ctypes.c_void_p(stream), ctypes.c_void_p(), ctypes.c_void_p()
        assert call("StreamBeginCapture", handle, 0) == 0
        device.fill(memory, 1, 4096, stream)
        assert call("StreamEndCapture", handle, ctypes.byref(graph)) == 0
        if PREFIX == "cuda":
            assert call("GraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0)) == 0
        else:
            assert call("GraphInstantiate", ctypes.byref(ready), graph, None, None, ctypes.c_size_t(0)) == 0
        device.free(memory)
        errors = []
        def fails(what, *arguments):
            try:
                what(*arguments)
            except RuntimeError as error:
                errors.append(str(error))
            else:
                raise SystemExit(f"{what} does not fail")
        assert call("GraphLaunch", ready, handle) == 0  # fills what is not there any more
        fails(device.synchronize, stream)
        assert "IllegalAddress" in errors[0], errors
        assert device.lost and not other.lost
        read = np.zeros(16, np.uint8)
        for what, *arguments in [
            (device.allocate, 64), (device.allocate_host, 64), (device.memory_info,),
            (device.upload, memory, read, stream), (device.download, read, memory, stream),
            (device.copy, memory, memory, 16, stream), (device.fill, memory, 1, 16, stream),
            (device.create_stream,), (device.synchronize, stream), (device.create_event,),
            (device.record_event, event, stream), (device.wait_event, stream, event),
            (device.query_event, event), (device.synchronize_event, event),
            (device.elapsed_ms, event, event),
        ]:
            fails(what, *arguments)
            assert "is lost until this process ends" in errors[-1] and "IllegalAddress" in errors[-1]
        assert not device.is_capturing(stream)
        device.destroy_event(event)
        device.destroy_stream(stream)
        device.free(memory)
        memory = other.allocate(64)
        other.fill(memory, 3, 64, 0)
        other.synchronize(0)
        other.free(memory)
        """,
    )


def test_captures_are_seen_and_not_disturbed(flavour: str) -> None:
    on(
        flavour,
        """
        device, other = cards()
        stream, second = device.create_stream(), device.create_stream()
        memory = device.allocate(4096)
        assert not device.is_capturing(stream) and not device.is_capturing(0)
        handle = ctypes.c_void_p(stream)
        assert call("StreamBeginCapture", handle, 0) == 0
        assert device.is_capturing(stream)
        assert not device.is_capturing(second)
        device.fill(memory, 5, 4096, stream)
        graph = ctypes.c_void_p()
        assert call("StreamEndCapture", handle, ctypes.byref(graph)) == 0 and graph.value
        assert not device.is_capturing(stream)
        read = np.zeros(4096, np.uint8)
        device.download(read, memory, second)
        device.synchronize(second)
        assert not (read == 5).all()  # it was captured only
        assert call("PeekAtLastError") == 0
        """,
    )


def test_another_threads_capture_is_not_spoiled(flavour: str) -> None:
    """What is allocated and waited for in the background has nothing to do with it."""
    on(
        flavour,
        """
        import threading
        device = cards()[0]
        stream, own = device.create_stream(), device.create_stream()
        memory, event = device.allocate(4096), device.create_event()
        handle, graph = ctypes.c_void_p(stream), ctypes.c_void_p()
        assert call("StreamBeginCapture", handle, 0) == 0  # for all threads
        device.fill(memory, 5, 4096, stream)
        failures = []
        def background():
            try:
                more, pinned = device.allocate(4096), device.allocate_host(4096)
                device.fill(more, 1, 4096, own)
                device.record_event(event, own)
                device.synchronize_event(event)
                assert device.query_event(event)
                device.synchronize(own)
                device.memory_info()
                device.free_host(pinned)
                device.free(more)
                device.destroy_event(device.create_event())
                device.destroy_stream(device.create_stream())
                mode = ctypes.c_int(0)  # is as it was
                assert call("ThreadExchangeStreamCaptureMode", ctypes.byref(mode)) == 0 and mode.value == 0
            except BaseException as error:
                failures.append(error)
        thread = threading.Thread(target=background)
        thread.start()
        thread.join()
        assert not failures, failures
        assert call("StreamEndCapture", handle, ctypes.byref(graph)) == 0 and graph.value
        """,
    )


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_no_driver_no_card_old_driver(vendor: str) -> None:
    name = "cuda13" if vendor == "cuda" else "rocm7"
    runtime, library = ("libcudart", "libcublasLt") if vendor == "cuda" else ("libamdhip64", "librocblas")
    visible = "CUDA_VISIBLE_DEVICES" if vendor == "cuda" else "HIP_VISIBLE_DEVICES"
    cases: list[tuple[str, dict[str, str], list[str]]] = [
        ("no_cards", {}, ["no card"]),
        ("no_cards", {visible: ""}, [f"no card ({visible} is '')"]),
        (
            "old_driver",
            {},
            ["the driver (11.4) is older than the runtime (13.0)", "install a runtime of 11.x"]
            if vendor == "cuda"
            else ["the driver (5.7) is older than the runtime (7.1)"],
        ),
    ]
    if vendor == "cuda":
        cases.append(("no_driver", {}, ["no driver is loaded", "cudaErrorInsufficientDriver"]))
    for fault, env, words in cases:
        lines, cards = seen(**{vendor: folder(name)}, SIM_GPU_FAULTS=fault, **env)
        assert cards == []
        assert not lines[runtime]["available"]
        for text in [*words, str(folder(name) / RUNTIMES[name])]:
            assert text in lines[runtime]["reason"]
        assert lines[library]["reason"] == f"not looked for, since {runtime} is of no use"


def links(to: Path, *files: Path) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    for file in files:
        (to / file.name).symlink_to(file)
    return to


def test_an_older_runtime_is_taken_where_the_driver_is_too_old_for_the_newest() -> None:
    """Both are in the folders; only the newer one finds the driver too old."""
    newer = folder("cuda13") / RUNTIMES["cuda13"]
    script = f"""
        ctypes.CDLL({str(newer)!r}).sim_gpu_set_faults(b"old_driver")
        lines = native.vendor_libraries()
        assert lines["libcudart"]["identity"] == "12.8", lines
        assert lines["libcudart"]["reason"] == ""
        assert "cuda12" in lines["libcublasLt"]["path"]
        assert [gpu["backends"] for gpu in native.vendor_cards()] == [["cublaslt"]] * 2
    """
    run(script, cuda=f"{folder('cuda13')}:{folder('cuda12')}")


def test_a_runtime_with_its_gemm_library_comes_before_a_newer_one_without(tmp_path: Path) -> None:
    alone = links(tmp_path / "alone", folder("cuda13") / RUNTIMES["cuda13"])
    whole = folder("cuda12")
    lines, cards = seen(cuda=f"{alone}:{whole}")
    assert lines["libcudart"]["identity"] == "12.8"
    assert [backends for _, backends, _ in cards] == [["cublaslt"]] * 2
    # Libraries of two generations do not go together: cards there are, and what is missing is said.
    mixed = links(tmp_path / "mixed", alone / "libcudart.so.13", whole / "libcublasLt.so.12")
    lines, cards = seen(cuda=mixed)
    assert lines["libcudart"]["available"]
    assert lines["libcudart"]["identity"] == "13.0"
    assert not lines["libcublasLt"]["available"]
    assert [backends for _, backends, _ in cards] == [[], []]
    for reason in [lines["libcublasLt"]["reason"], *(reason for _, _, reason in cards)]:
        assert "libcublasLt.so.13" in reason
        assert "TUNABLEOP_CUDA_PATH" in reason


def test_what_the_process_has_loaded_is_used() -> None:
    """Though a newer one lies in the folder that comes first."""
    older = folder("cuda12") / RUNTIMES["cuda12"]
    script = f"""
        ctypes.CDLL({str(older)!r})
        lines = native.vendor_libraries()
        assert lines["libcudart"]["path"] == {str(older)!r}, lines
        assert lines["libcublasLt"]["identity"].startswith("12."), lines
    """
    run(script, cuda=f"{folder('cuda13')}:{folder('cuda12')}")


def test_cards_of_both_vendors() -> None:
    lines, cards = seen(cuda=folder("cuda13"), rocm=folder("rocm7"))
    assert [card["backend"] for card, _, _ in cards] == ["cuda", "cuda", "hip", "hip"]
    assert all(line["available"] for line in lines.values()), lines


def test_a_runtime_that_lacks_a_function(tmp_path: Path) -> None:
    """As a stub, or another library of that name."""
    (tmp_path / "libcudart.so.13").write_bytes(built("libtunableop_findable.so").read_bytes())
    lines, cards = seen(cuda=tmp_path)
    assert cards == []
    assert "libcudart.so.13 has no symbol cudaDriverGetVersion" in lines["libcudart"]["reason"]


def test_a_file_for_another_processor(tmp_path: Path) -> None:
    content = bytearray(built("libtunableop_findable.so").read_bytes())
    content[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    (tmp_path / "libamdhip64.so.7").write_bytes(content)
    lines, cards = seen(rocm=tmp_path)
    assert cards == []
    assert "another kind of processor" in lines["libamdhip64"]["reason"]


@pytest.mark.parametrize("name", ["cuda13", "rocm7"])
def test_listing_the_cards_makes_nothing_on_them(name: str) -> None:
    """A context on each would take hundreds of megabytes of each."""
    on(
        name,
        """
        assert len(set(native.vendor_card_addresses())) == 2
        assert [count(what) for what in ("handles", "mallocs", "streams", "heuristics")] == [0] * 4
        assert [gpu["unusable"] for gpu in native.vendor_cards()] == ["", ""]
        """,
    )


def test_a_gemm_library_that_cannot_run_on_the_card() -> None:
    """hipBLASLt says so at its first use; rocBLAS serves the card."""
    script = """
        able = [[gpu["backends"], gpu["unusable"]] for gpu in native.vendor_cards()]
        print(json.dumps([able, native.vendor_libraries()]))
    """
    cards, lines = json.loads(run(script, rocm=folder("rocm7"), SIM_GPU_FAULTS="lt_unsupported").stdout)
    assert cards == [[["hipblaslt", "rocblas"], ""]] * 2
    assert not lines["libhipblaslt"]["available"]
    assert lines["libhipblaslt"]["reason"].startswith("hipblaslt: ")
    assert lines["libhipblaslt"]["path"]
    assert lines["librocblas"]["available"]


BROKEN = [
    ("cuda12-broken", "libcudart", "cudaEventElapsedTime", None),
    ("cuda13-broken", "libcublasLt", "cublasLtMatmul", [[], "cublasLtMatmul"]),
    ("rocm7-broken", "librocblas", "rocblas_gemm_ex", [["hipblaslt"], "hipblasLtMatmul"]),
]


@pytest.mark.parametrize(("name", "library", "symbol", "card"), BROKEN)
def test_an_installation_that_lacks_a_function(name: str, library: str, symbol: str, card: Any) -> None:
    """It is named, and no card is offered that nothing can run on."""
    place = built(f"gpu_sim/{name}/lib*.so*").parent
    script = """
        able = [[gpu["backends"], gpu["unusable"]] for gpu in native.vendor_cards()]
        print(json.dumps([able, native.vendor_libraries()]))
    """
    vendor = "cuda" if name.startswith("cuda") else "rocm"
    cards, lines = json.loads(run(script, **{vendor: place}).stdout)  # type: ignore[arg-type]
    assert not lines[library]["available"]
    assert symbol in lines[library]["reason"]
    assert len(cards) == (0 if card is None else 2)
    for backends, unusable in cards:
        assert backends == card[0]
        assert card[1] in unusable


def test_a_gemm_library_that_cannot_be_loaded_leaves_the_other_one(tmp_path: Path) -> None:
    real = folder("rocm7")
    place = links(tmp_path, real / RUNTIMES["rocm7"], real / "librocblas.so.5")
    (place / "libhipblaslt.so.1").write_text("not a library\n" * 100)
    lines, cards = seen(rocm=place)
    assert [backends for _, backends, _ in cards] == [["rocblas"], ["rocblas"]]
    assert [reason for _, _, reason in cards] == ["", ""]
    assert "invalid ELF header" in lines["libhipblaslt"]["reason"]
    assert lines["librocblas"]["available"]
