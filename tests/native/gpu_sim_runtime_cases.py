"""What the simulated runtimes must do. Each case runs in a process that has one flavour loaded."""

from __future__ import annotations

import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer

import numpy as np
from support.gpu_sim import (
    ILLEGAL_ADDRESS,
    LAUNCH_FAILURE,
    NOT_READY,
    ON_DEVICE,
    TO_DEVICE,
    TO_HOST,
    GpuError,
    Runtime,
)
from support.gpu_sim_lt import Lt, Product

INVALID_VALUE, OUT_OF_MEMORY, INVALID_HANDLE, INVALID_DEVICE = 1, 2, 400, 101
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURED_EVENT = 900, 901, 907


def status_of(call: object, *arguments: object) -> int:
    try:
        call(*arguments)  # type: ignore[operator]
    except GpuError as error:
        return error.status
    return 0


def cards(gpu: Runtime) -> None:
    count = c_int()
    gpu.call("GetDeviceCount", byref(count))
    assert count.value == 2
    assert gpu.status("SetDevice", 2) == INVALID_DEVICE
    assert gpu.status("GetLastError") == INVALID_DEVICE
    assert gpu.status("GetLastError") == 0
    buses = set()
    for ordinal in range(2):
        text = create_string_buffer(32)
        gpu.call("DeviceGetPCIBusId", text, 32, ordinal)
        again = c_int(-1)
        gpu.call("DeviceGetByPCIBusId", byref(again), c_char_p(text.value.lower()))
        assert again.value == ordinal
        buses.add(text.value)
    assert len(buses) == 2
    if gpu.amd:
        properties = create_string_buffer(4096)
        gpu.call("GetDevicePropertiesR0600", properties, 1)
        assert properties.raw[1160:].startswith(b"gfx942:")


def memory(gpu: Runtime) -> None:
    free, total = c_size_t(), c_size_t()
    gpu.call("MemGetInfo", byref(free), byref(total))
    assert free.value == total.value == 1 << 30
    block = gpu.malloc(1000)
    assert block.value is not None
    assert block.value % 256 == 0
    gpu.call("MemGetInfo", byref(free), byref(total))
    assert total.value - free.value == 1024
    assert np.all(gpu.download(block, 1000, np.uint8) == 0xFF), "fresh memory is not NaN"
    assert status_of(gpu.malloc, 1 << 30) == OUT_OF_MEMORY
    gpu.free(block)
    assert status_of(gpu.free, block) == INVALID_VALUE
    out = np.empty(8, np.uint8)
    assert gpu.status("Memcpy", c_void_p(out.ctypes.data), block, c_size_t(8), TO_HOST) == INVALID_VALUE
    # Half of a card over and over: the memory of what was freed comes back.
    for _ in range(300):
        gpu.free(gpu.malloc(1 << 29))


def copies(gpu: Runtime) -> None:
    data = np.arange(1000, dtype=np.int32)
    one, two = gpu.upload(data), gpu.malloc(data.nbytes)
    gpu.call("Memcpy", two, one, c_size_t(data.nbytes), ON_DEVICE)
    np.testing.assert_array_equal(gpu.download(two, 1000, np.int32), data)
    gpu.call("MemsetAsync", two, 7, c_size_t(data.nbytes - 4), None)
    filled = gpu.download(two, 1000, np.int32)
    assert np.all(filled[:-1] == 0x07070707)
    assert filled[-1] == 999
    wide = gpu.upload(np.arange(12, dtype=np.int32))  # three rows of four
    rows = c_size_t(16), two, c_size_t(8), c_size_t(8), c_size_t(3)  # two numbers of each, from the left
    gpu.call("Memcpy2DAsync", wide, *rows, ON_DEVICE, None)
    left = gpu.download(two, 6, np.int32).reshape(3, 2)
    expected = np.arange(12, dtype=np.int32).reshape(3, 4)
    expected[:, :2] = left
    np.testing.assert_array_equal(gpu.download(wide, 12, np.int32).reshape(3, 4), expected)
    too_near = c_size_t(4), two, c_size_t(8), c_size_t(8), c_size_t(3)
    assert gpu.status("Memcpy2DAsync", wide, *too_near, ON_DEVICE, None) == INVALID_VALUE
    outside = c_size_t(16), two, c_size_t(8), c_size_t(8), c_size_t(4)
    assert gpu.status("Memcpy2DAsync", wide, *outside, ON_DEVICE, None) == INVALID_VALUE
    size = c_size_t(data.nbytes)
    host = c_void_p(data.ctypes.data)
    assert gpu.status("Memcpy", two, host, size, TO_HOST) == INVALID_VALUE, "the wrong direction"
    assert gpu.status("Memcpy", two, host, c_size_t(data.nbytes + 1), TO_DEVICE) == INVALID_VALUE


def out_of_memory(gpu: Runtime) -> None:
    gpu.faults("oom:3")
    assert [status_of(gpu.malloc, 10) for _ in range(4)] == [0, 0, OUT_OF_MEMORY, 0]
    gpu.faults("oom_above:100")
    assert [status_of(gpu.malloc, size) for size in (100, 101)] == [0, OUT_OF_MEMORY]


def drivers(gpu: Runtime) -> None:
    count, version, runtime = c_int(7), c_int(), c_int()
    for fault, statuses in (("no_driver", (35, 100)), ("old_driver", (35, 35)), ("no_cards", (100, 100))):
        gpu.faults(fault)
        assert gpu.status("GetDeviceCount", byref(count)) == statuses[int(gpu.amd)], fault
        assert count.value == 0
    gpu.faults("old_driver")
    gpu.call("DriverGetVersion", byref(version))
    gpu.call("RuntimeGetVersion", byref(runtime))
    assert version.value < runtime.value


def ordered(gpu: Runtime, lt: Lt) -> None:
    """Work on a stream that hangs does not hold up another one; the null stream waits for a blocking one."""
    product = Product(lt, 8, 8, 8)
    blocks = [gpu.malloc(256) for _ in range(3)]
    algo = product.heuristic()[0]
    free_stream, blocking = gpu.stream(), gpu.stream(0)
    gpu.faults("hang")
    product.run(algo, *blocks, stream=blocking)
    assert gpu.status("StreamQuery", blocking) == NOT_READY
    event = gpu.event()
    gpu.call("EventRecord", event, blocking)
    assert gpu.status("EventQuery", event) == NOT_READY
    gpu.call("MemsetAsync", blocks[0], 0, c_size_t(256), free_stream)
    gpu.synchronize(free_stream)
    gpu.call("MemsetAsync", blocks[0], 0, c_size_t(256), None)
    assert gpu.status("StreamQuery", None) == NOT_READY
    gpu.call("StreamWaitEvent", free_stream, event, 0)
    gpu.call("MemsetAsync", blocks[1], 0, c_size_t(256), free_stream)
    time.sleep(0.01)  # nothing may happen in it
    assert gpu.status("StreamQuery", free_stream) == NOT_READY
    gpu.release()
    for stream in (free_stream, blocking, None):
        gpu.synchronize(stream)
    assert gpu.status("EventQuery", event) == 0
    assert gpu.status("StreamDestroy", free_stream) == 0
    assert gpu.status("StreamSynchronize", free_stream) == INVALID_HANDLE


def timed(gpu: Runtime, lt: Lt) -> None:
    """The time of a kernel is what the cost says, and more from a cold cache."""
    product = Product(lt, 64, 64, 64)
    a, b, d = (gpu.malloc(64 * 64 * 4) for _ in range(3))
    flushed = gpu.malloc(8 << 20)
    algo = product.heuristic()[0]
    workspace = gpu.malloc(32 << 20)

    def run() -> None:
        product.run(algo, a, b, d, workspace, 32 << 20)

    def flush() -> None:
        gpu.call("MemsetAsync", flushed, 0, c_size_t(8 << 20), None)

    flush()
    cold, warm, again = gpu.time(run), gpu.time(run), gpu.time(run)
    flush()
    assert cold > warm * 1.001
    assert abs(warm - again) < 1e-6
    assert abs(gpu.time(run) - cold) < 1e-6
    gpu.faults("slow")
    assert gpu.time(run) > 8 * warm
    gpu.faults("noisy:20")
    noisy = [gpu.time(run) for _ in range(50)]
    assert 1.1 < max(noisy) / min(noisy) < 1.5


def lost_by_address(gpu: Runtime, lt: Lt) -> None:
    """A kernel that is given freed memory, the other card's, or less than it needs is the card's end."""
    product = Product(lt, 16, 16, 16)
    algo = product.heuristic()[0]
    good = [gpu.malloc(1024) for _ in range(3)]
    freed, short = gpu.malloc(1024), gpu.malloc(1020)
    gpu.free(freed)
    gpu.call("SetDevice", 1)
    other = gpu.malloc(1024)
    gpu.call("SetDevice", 0)
    for bad in (freed, short, other):
        product.run(algo, bad, good[1], good[2])
        assert gpu.status("StreamSynchronize", None) == ILLEGAL_ADDRESS
        assert status_of(gpu.malloc, 10) == ILLEGAL_ADDRESS, "the error stays"
        assert product.status(algo, *good) == lt.numbers.execution_failed
        gpu.library.sim_gpu_heal()
    assert gpu.count("illegal_address") == 3
    product.run(algo, *good)
    gpu.synchronize()
    gpu.faults("lost:2")
    product.run(algo, *good)
    gpu.synchronize()
    product.run(algo, *good)
    assert gpu.status("DeviceSynchronize") == LAUNCH_FAILURE
    gpu.call("SetDevice", 1)
    gpu.call("DeviceSynchronize")


def of_a_card(gpu: Runtime, lt: Lt) -> None:
    """Handles, streams and events belong to a card."""
    product = Product(lt, 8, 8, 8)
    algo = product.heuristic()[0]
    blocks = [gpu.malloc(256) for _ in range(3)]
    event, stream = gpu.event(), gpu.stream()
    gpu.call("SetDevice", 1)
    assert product.status(algo, *blocks) != 0
    assert gpu.count("misuse:handle_of_another_card") == 1
    assert gpu.status("EventRecord", event, None) == INVALID_HANDLE
    gpu.call("SetDevice", 0)
    gpu.call("EventRecord", event, stream)
    gpu.call("EventSynchronize", event)


def captured(gpu: Runtime, lt: Lt) -> None:
    """A graph runs again what was captured, on what the memory holds then."""
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
    product = Product(lt, 16, 16, 16)
    algo = product.heuristic()[0]
    a, b, d = gpu.upload(x.T.copy()), gpu.upload(y.T.copy()), gpu.malloc(1024)
    stream, side = gpu.stream(), gpu.stream()
    status = c_int(-1)
    gpu.call("StreamBeginCapture", stream, 1)
    gpu.call("StreamIsCapturing", stream, byref(status))
    assert status.value == 1
    product.run(algo, a, b, d, stream=stream)
    fork, join = gpu.event(), gpu.event()
    gpu.call("EventRecord", fork, stream)
    gpu.call("StreamWaitEvent", side, fork, 0)
    gpu.call("MemsetAsync", b, 0, c_size_t(4), side)
    gpu.call("EventRecord", join, side)
    gpu.call("StreamWaitEvent", stream, join, 0)
    assert gpu.status("EventQuery", fork) == CAPTURED_EVENT
    graph = c_void_p()
    gpu.call("StreamEndCapture", stream, byref(graph))
    assert gpu.count("kernels") == 0, "captured, not run"
    executable = c_void_p()
    if gpu.amd:
        gpu.call("GraphInstantiate", byref(executable), graph, None, None, c_size_t(0))
    else:
        gpu.call("GraphInstantiateWithFlags", byref(executable), graph, c_size_t(0))
    for factor in (1, 2):
        gpu.copy_in(a, x.T * np.float32(factor))
        gpu.copy_in(b, y.T.copy())
        gpu.call("GraphLaunch", executable, stream)
        gpu.synchronize(stream)
        np.testing.assert_allclose(gpu.download(d, (16, 16), np.float32).T, factor * (x @ y), atol=1e-4)
        assert gpu.download(b, 1, np.float32)[0] == 0
    assert gpu.count("kernels") == 2


def capture_spoiled(gpu: Runtime) -> None:
    stream = gpu.stream()
    graph, status = c_void_p(), c_int()
    if gpu.flavour != "rocm6":  # which let it pass
        gpu.call("StreamBeginCapture", stream, 0)
        assert status_of(gpu.malloc, 10) == CAPTURE_UNSUPPORTED
        gpu.call("StreamIsCapturing", stream, byref(status))
        assert status.value == 2
        assert gpu.status("StreamEndCapture", stream, byref(graph)) == CAPTURE_INVALIDATED
        assert not graph.value
    gpu.call("StreamBeginCapture", stream, 2)
    gpu.malloc(10)
    assert gpu.status("StreamSynchronize", stream) == CAPTURE_UNSUPPORTED
    assert gpu.status("StreamEndCapture", stream, byref(graph)) == CAPTURE_INVALIDATED
    gpu.malloc(10)


def released(gpu: Runtime) -> None:
    """Memory in the order of a stream; page-locked memory is the host's."""
    stream = gpu.stream()
    before = gpu.library.sim_gpu_memory_used(0)
    block = gpu.made("MallocAsync", c_size_t(1 << 20), stream)
    assert gpu.library.sim_gpu_memory_used(0) == before + (1 << 20)
    gpu.call("FreeAsync", block, stream)
    gpu.synchronize(stream)
    assert gpu.library.sim_gpu_memory_used(0) == before
    pinned = gpu.made("HostMalloc" if gpu.amd else "HostAlloc", c_size_t(64), 0)
    assert pinned.value is not None
    view = np.ctypeslib.as_array((c_int * 16).from_address(pinned.value))
    view[:] = 5
    device = gpu.malloc(64)
    gpu.call("MemcpyAsync", device, pinned, c_size_t(64), TO_DEVICE, stream)
    gpu.synchronize(stream)
    assert np.all(gpu.download(device, 16, np.int32) == 5)
    gpu.call("HostFree" if gpu.amd else "FreeHost", pinned)


ALONE = (cards, memory, copies, out_of_memory, drivers, capture_spoiled, released)
WITH_LT = (ordered, timed, lost_by_address, of_a_card, captured)
