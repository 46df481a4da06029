"""Kernels compiled at run time, through the simulated compilers and drivers of both vendors."""

from __future__ import annotations

import ctypes
import re
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.built import FOLDER
from support.cards import BOTH, FLAVOURS, backend, count, faults, flavour, on_card
from support.rtc import SOURCE, card, download, library, native, refusal, scaled, upload, vendor

# Device: modules and launches.


def code_for(device: Any, source: str = SOURCE, t0: str = "f32") -> bytes:
    compiler = native.Compiler(device)
    return bytes(compiler.compile("sim", source, compiler.options([f"TUNABLEOP_T0={t0}"])))


@on_card(*FLAVOURS)
def test_a_module_is_loaded_and_launched() -> None:
    device = card()
    native.can_load_modules(device)
    module = native.load_module(device, code_for(device))
    function = native.function_of(device, module, "scale")
    assert native.function_of(device, module, "scale") == function
    x = np.linspace(-4, 4, 777, dtype=np.float32)
    at, to = upload(device, x), device.allocate(x.nbytes)
    stream = device.create_stream()
    for shape in ((1, 1), (7, 32), (777, 1024)):
        device.fill(to, 0, x.nbytes, stream)
        native.launch_scale(device, function, at, to, x.size, 0.5, stream, shape)
        device.synchronize(stream)
        np.testing.assert_array_equal(download(device, to, x), x / 2)
    assert count("launches") == count("device_kernels:scale") == 3
    assert "nothing" in refusal(native.function_of, device, module, "nothing")
    native.unload_module(device, module)
    assert (count("modules"), count("modules_unloaded")) == (1, 1)
    assert not device.lost
    assert "launching a kernel" in refusal(native.launch_scale, device, function, at, to, 1, 1.0, stream)


@on_card(*BOTH)
def test_a_thread_without_a_context_launches() -> None:
    """A thread's first call at all is a launch: CUDA's driver, unlike its runtime, refuses that."""
    device = card()
    function = native.function_of(device, native.load_module(device, code_for(device)), "scale")
    x = np.ones(8, np.float32)
    at, to = upload(device, x), device.allocate(x.nbytes)
    stream = device.create_stream()
    device.synchronize(0)
    native.launch_scale(device, function, at, to, 8, 4.0, stream, fresh_thread=True)
    device.synchronize(stream)
    np.testing.assert_array_equal(download(device, to, x), 4 * x)


@on_card(*BOTH)
def test_the_second_card() -> None:
    """The card that was current stays so, and a kernel is the card's that it was loaded on."""
    devices = [card(0), card(1)]
    functions = [native.function_of(d, native.load_module(d, code_for(d)), "scale") for d in devices]
    current = ctypes.c_int(-1)
    for device, function in zip(devices, functions, strict=True):
        x = np.full(100, 2.0, np.float32)
        at, to, stream = upload(device, x), device.allocate(x.nbytes), device.create_stream()
        device.synchronize(0)
        native.launch_scale(device, function, at, to, 100, 8.0, stream)
        assert vendor("GetDevice", byref(current)) == 0
        assert current.value == 0
        device.synchronize(stream)
        np.testing.assert_array_equal(download(device, to, x), 8 * x)
    stream = devices[1].create_stream()
    assert refusal(native.launch_scale, devices[1], functions[0], at, to, 100, 1.0, stream)
    assert not devices[0].lost
    assert not devices[1].lost


@on_card(*BOTH)
def test_launches_are_captured() -> None:
    device = card()
    module = native.load_module(device, code_for(device))
    function = native.function_of(device, module, "scale")
    x = np.arange(64, dtype=np.float32)
    at, to, stream = upload(device, x), device.allocate(x.nbytes), device.create_stream()
    device.fill(to, 0, x.nbytes, stream)
    device.synchronize(stream)
    device.synchronize(0)
    graph, runnable = c_void_p(), c_void_p()
    assert vendor("StreamBeginCapture", c_void_p(stream), 0) == 0
    native.launch_scale(device, function, at, to, 64, 5.0, stream)
    # Another thread's or session's code may be loaded meanwhile: it is no part of the capture.
    native.load_module(device, code_for(device, t0="f64"))
    assert vendor("StreamEndCapture", c_void_p(stream), byref(graph)) == 0
    name = "GraphInstantiateWithFlags" if backend() == "cuda" else "GraphInstantiate"
    more = (ctypes.c_ulonglong(0),) if backend() == "cuda" else (None, None, ctypes.c_size_t(0))
    assert vendor(name, byref(runnable), graph, *more) == 0
    assert not download(device, to, x).any()  # nothing ran
    for factor in (1, 2):
        device.upload(at, x * factor, 0)
        device.synchronize(0)
        assert vendor("GraphLaunch", runnable, c_void_p(stream)) == 0
        device.synchronize(stream)
        np.testing.assert_array_equal(download(device, to, x), 5 * factor * x)
    assert count("device_kernels") == 2


@on_card(*BOTH)
def test_what_is_wrong_with_code_or_launch_is_said() -> None:
    device = card()
    code = code_for(device)
    assert "loading code" in refusal(native.load_module, device, b"no code at all" * 10)
    other = code.replace(b"sm_90", b"sm_80").replace(b"gfx942", b"gfx906")
    assert "device" in refusal(native.load_module, device, other)
    faults("module_oom")
    with pytest.raises(MemoryError):
        native.load_module(device, code)
    faults("")
    function = native.function_of(device, native.load_module(device, code), "scale")
    x = upload(device, np.ones(4, np.float32))
    stream = device.create_stream()
    faults("launch_fails")
    assert "resources" in refusal(native.launch_scale, device, function, x, x, 4, 1.0, stream)
    faults("")
    assert refusal(native.launch_scale, device, function, x, x, 4, 1.0, stream, (1, 2048))
    assert refusal(native.launch_scale, device, function, x, x, 4, 1.0, stream, (0, 32))
    native.launch_scale(device, function, x, x, 4, 1.0, stream)
    device.synchronize(stream)
    assert not device.lost


@on_card(*BOTH)
def test_an_address_of_nothing_loses_the_card() -> None:
    device = card()
    function = native.function_of(device, native.load_module(device, code_for(device)), "scale")
    x = upload(device, np.ones(64, np.float32))
    gone = device.allocate(256)
    device.free(gone)
    stream = device.create_stream()
    native.launch_scale(device, function, x, gone, 64, 1.0, stream)
    assert "illegal" in refusal(device.synchronize, stream).lower()
    assert device.lost
    assert "lost" in refusal(native.launch_scale, device, function, x, x, 1, 1.0, stream)


@on_card(*BOTH)
def test_a_write_beyond_an_allocation_is_seen() -> None:
    """The simulation's fences."""
    device = card()
    function = native.function_of(device, native.load_module(device, code_for(device)), "scale")
    x, y = upload(device, np.ones(65, np.float32)), device.allocate(64 * 4)
    stream = device.create_stream()
    device.synchronize(0)
    native.launch_scale(device, function, x, y, 64, 1.0, stream)
    device.synchronize(stream)
    native.launch_scale(device, function, x, y, 65, 1.0, stream)
    assert refusal(device.synchronize, stream)


@on_card("cuda13-nosearch", "rocm7-noext")
def test_a_runtime_without_what_loads_code() -> None:
    """CUDA: no driver's library; ROCm: no compiler."""
    device = card()
    words = refusal(library(device=device).available)
    assert "kernels cannot be compiled" in words
    assert ("libcuda.so.1" if "cuda" in flavour() else "libhiprtc.so.7") in words
    if "cuda" in flavour():
        assert "libcuda.so.1" in refusal(native.load_module, device, b"code")
        assert "libcuda.so.1" in refusal(native.can_load_modules, device)
    assert not device.lost


# The compiler.


@on_card(*FLAVOURS)
def test_the_compiler_of_the_release_is_found() -> None:
    compiler = native.Compiler(card())
    name = {
        "cuda12": "libnvrtc.so.12",
        "cuda13": "libnvrtc.so.13",
        "rocm6": "libhiprtc.so.6",
    }.get(flavour(), "libhiprtc.so.7")
    assert compiler.path == str(FOLDER / "gpu_sim" / flavour() / name)
    size = Path(compiler.path).stat().st_size
    versions = {"cuda12": "nvrtc 12.8", "cuda13": "nvrtc 13.0"}
    assert compiler.identity.startswith(versions.get(flavour(), "hiprtc 9.0 of HIP "))
    assert compiler.identity.endswith(f", {size} bytes")
    options = compiler.options(["TUNABLEOP_T0=f16", "A=1"])
    assert options[-2:] == ["-DTUNABLEOP_T0=f16", "-DA=1"]
    arch = "--gpu-architecture=sm_90" if backend() == "cuda" else "--offload-arch=gfx942"
    assert options[0] == arch


@on_card(*BOTH)
def test_what_the_compiler_says_is_told() -> None:
    device = card()
    compiler = native.Compiler(device)
    faults("compile_fails")
    words = refusal(compiler.compile, "sim", SOURCE, compiler.options([]))
    assert "ERROR_COMPILATION" in words
    assert 'sim(12): error: identifier "oops" is undefined' in words
    faults("compile_oom")
    with pytest.raises(MemoryError):
        compiler.compile("sim", SOURCE, compiler.options([]))
    faults("")
    assert "unrecognized option -x" in refusal(compiler.compile, "sim", SOURCE, ["-x"])
    assert compiler.compile("sim", SOURCE, compiler.options([]))
    assert count("programs") == count("programs_destroyed") == 4


@on_card("cuda12", "cuda13")
def test_a_card_newer_than_its_compiler() -> None:
    """It gets what the driver compiles to the end: PTX of the newest architecture that the compiler knows."""
    faults("old_compiler")
    device = card()
    compiler = native.Compiler(device)
    options = compiler.options([])
    assert options[0] == "--gpu-architecture=compute_86"
    code = compiler.compile("sim", SOURCE, options)
    assert code.endswith(b"\0")
    scaled(library(device=device).get("sim", "f32", "", "scale"), device)


@on_card("cuda13")
def test_a_card_older_than_its_compiler() -> None:
    faults("new_compiler")
    words = refusal(native.Compiler, card())
    assert "makes no code for sm_90: sm_100 is the oldest it knows" in words
    assert words.split()[0].endswith("libnvrtc.so.13")


# KernelLibrary.


@on_card(*FLAVOURS)
def test_a_kernel_is_compiled_once() -> None:
    device = card()
    kernels = library(device=device)
    kernels.available()
    assert kernels.compiler == native.Compiler(device).identity
    assert count("compiles") == count("modules") == 0
    scaled(kernels.get("sim", "f32", "", "scale"), device)
    scaled(kernels.get("sim", "f32", "", "scale"), device)
    assert count("compiles") == count("modules") == 1
    scaled(kernels.get("sim", "i64", "f32", "scale"), device, np.int64)
    assert count("compiles") == count("modules") == 2
    arch = "sm_90" if backend() == "cuda" else "gfx942"
    (_, first), (_, second) = kernels.lines
    assert re.fullmatch(rf"compiled sim f32 for {arch} in \d+ ms \({re.escape(kernels.compiler)}\)", first)
    assert second.startswith(f"compiled sim i64 f32 for {arch} in ")
    del kernels


@on_card(*FLAVOURS)
def test_a_kernel_of_the_project() -> None:
    """From the text in the wheel to an answer."""
    device = card()
    kernels = library(device=device)
    rng = np.random.default_rng(5)
    a, b = rng.random((3, 1, 40), np.float32), rng.random((7, 40), np.float32)
    out = np.empty((3, 7, 40), np.float32)
    at, bt, to = upload(device, a), upload(device, b), device.allocate(out.nbytes)
    stream = device.create_stream()
    device.synchronize(0)
    for name, function in (("binary_add", np.add), ("binary_mul", np.multiply)):
        kernel = kernels.get("binary", "f32", "f32", name)
        native.launch_binary(kernel, at, a.shape, bt, b.shape, to, stream)
        device.synchronize(stream)
        np.testing.assert_array_equal(download(device, to, out), function(a, b))
    assert count("compiles") == 1
    assert "binary_nothing" in refusal(kernels.get, "binary", "f32", "f32", "binary_nothing")
    assert "no kernels of binary for w1" in refusal(kernels.get, "binary", "w1", "w1", "binary_add")


@on_card(*BOTH)
def test_threads_that_ask_at_once_compile_once() -> None:
    faults("compile_slow:50")
    kernels = library()
    assert kernels.get_at_once("sim", "f32", "scale", 8) == []
    assert count("compiles") == count("modules") == 1
    faults("compile_fails")
    failures = kernels.get_at_once("sim", "f64", "scale", 8)
    assert len(failures) == 8
    assert len(set(failures)) == 1
    assert count("compiles") == 2


@on_card(*BOTH)
def test_modules_are_made_ahead_several_at_once() -> None:
    device = card()
    kernels = library(device=device)
    names = [("sim", type_name, "") for type_name in ("f32", "f64", "i64")]
    faults("compile_slow:50")
    words = kernels.prepare([*names, *names, ("sim", "bf16", ""), ("absent", "f32", "")], 3)
    assert words[:6] == [""] * 6
    assert "no kernels of sim for bf16" in words[6]
    assert words[7] == "there is no family of kernels 'absent'"
    assert count("compiles") == 4
    assert count("compiling_at_once:3") >= 1
    scaled(kernels.get("sim", "f32", "", "scale"), device)
    assert "no kernels" in refusal(kernels.get, "sim", "bf16", "", "scale")
    assert "there is no family" in refusal(kernels.get, "absent", "f32", "", "scale")
    assert count("compiles") == 4
    assert kernels.prepare([], 8) == []
    assert kernels.prepare(names, 0) == ["", "", ""]
    assert count("compiles") == 4


@on_card(*BOTH)
def test_a_refusal_is_remembered_and_want_of_memory_is_not() -> None:
    device = card()
    kernels = library(device=device)
    for fault in ("compile_oom", "module_oom"):
        faults(fault)
        with pytest.raises(MemoryError):
            kernels.get("sim", "f32", "", "scale")
    faults("")
    scaled(kernels.get("sim", "f32", "", "scale"), device)
    for fault, type_name in (("compile_fails", "f64"), ("module_fails", "i64")):
        faults(fault)
        words = refusal(kernels.get, "sim", type_name, "", "scale")
        before = count("compiles")
        faults("")
        assert refusal(kernels.get, "sim", type_name, "", "scale") == words
        assert count("compiles") == before
    assert "sim i64" in words
    assert "no kernels" in refusal(kernels.get, "sim", "bf16", "", "scale")
    assert "reads no other texts" in refusal(kernels.get, "strange", "", "", "scale")
    assert "there is no family of kernels 'absent'" in refusal(kernels.get, "absent", "f32", "", "scale")
    assert "nothing" in refusal(kernels.get, "sim", "f32", "", "nothing")
    scaled(kernels.get("sim", "f32", "", "scale"), device)
    assert not any(warning for warning, _ in kernels.lines)
