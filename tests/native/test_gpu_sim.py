"""The simulated vendor libraries: right where they should be, wrong where a fault says so.

They run in processes of their own, one for each flavour: a process that loaded a simulated runtime
has cards from then on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import pytest
from support.built import FOLDER
from support.gpu_sim import FLAVOURS

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "native"))

import gpu_sim_cuda_cases  # noqa: E402
import gpu_sim_lt_cases  # noqa: E402
import gpu_sim_rocm_cases  # noqa: E402
import gpu_sim_runtime_cases  # noqa: E402

MODULES = {
    "runtime": gpu_sim_runtime_cases,
    "lt": gpu_sim_lt_cases,
    "cuda": gpu_sim_cuda_cases,
    "rocm": gpu_sim_rocm_cases,
}


def run_case(flavour: str, module: str, name: str, needs_lt: bool) -> None:
    """In the flavour's process."""
    from support.gpu_sim import Runtime
    from support.gpu_sim_lt import Lt

    loaded = globals().setdefault("_loaded", {})
    gpu = loaded.get(flavour) or loaded.setdefault(flavour, Runtime(flavour))
    gpu.fresh()
    case = getattr(MODULES[module], name)
    if needs_lt:
        case(gpu, Lt(gpu))
    else:
        case(gpu)


@pytest.fixture(scope="module")
def children() -> Iterator[Callable[[str], ProcessPoolExecutor]]:
    """The process of a flavour, made when it is first asked for."""
    with ExitStack() as stack:
        pools: dict[str, ProcessPoolExecutor] = {}

        def child(flavour: str) -> ProcessPoolExecutor:
            if flavour not in pools:
                pools[flavour] = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            return pools[flavour]

        yield child


CASES = [("runtime", case.__name__, FLAVOURS, False) for case in gpu_sim_runtime_cases.ALONE]
CASES += [("runtime", case.__name__, FLAVOURS, True) for case in gpu_sim_runtime_cases.WITH_LT]
CASES += [("lt", case.__name__, FLAVOURS, True) for case in gpu_sim_lt_cases.ALL]
CASES += [("cuda", case.__name__, FLAVOURS[:2], True) for case in gpu_sim_cuda_cases.ALL]
CASES += [("rocm", case.__name__, FLAVOURS[2:], True) for case in gpu_sim_rocm_cases.ALL]


@pytest.mark.parametrize(
    ("flavour", "module", "name", "needs_lt"),
    [
        pytest.param(flavour, module, name, needs_lt, id=f"{flavour}-{name}")
        for module, name, flavours, needs_lt in CASES
        for flavour in flavours
    ],
)
def test_flavour(
    children: Callable[[str], ProcessPoolExecutor], flavour: str, module: str, name: str, needs_lt: bool
) -> None:
    children(flavour).submit(run_case, flavour, module, name, needs_lt).result(timeout=300)


PREAMBLE = f"""
import sys
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS / "native")!r}]
import ctypes, faulthandler
from support.gpu_sim import Runtime
from support.gpu_sim_lt import Lt, Product
"""


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    for options in ("ASAN_OPTIONS", "TSAN_OPTIONS"):
        environment[options] = os.environ.get(options, "") + ":handle_segv=0"
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("flavour", ["cuda13", "rocm7"])
def test_host_that_touches_a_cards_memory(flavour: str) -> None:
    done = run(
        f"gpu = Runtime({flavour!r}); block = gpu.malloc(64); print('so far', flush=True)\n"
        "ctypes.string_at(block, 1)"
    )
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert done.stdout == "so far\n"


SMALL_WORKSPACE = """
gpu = Runtime({flavour!r}); lt = Lt(gpu); product = Product(lt, 64, 64, 2048)
result = next(r for r in product.heuristic() if product.workspace_of(r) > 0)
blocks = [gpu.malloc(64 * 2048 * 4) for _ in range(3)]
print('so far', flush=True)
print(product.status(result, *blocks, gpu.malloc(256), 256))
"""


def test_small_workspace_of_rocm_6() -> None:
    done = run(SMALL_WORKSPACE.format(flavour="rocm6"))
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert done.stdout == "so far\n"
    assert "a workspace that is too small" in done.stderr


def test_small_workspace_since() -> None:
    done = run(SMALL_WORKSPACE.format(flavour="rocm7"))
    assert (done.returncode, done.stdout) == (0, "so far\n3\n"), done.stderr


def test_faults_of_the_environment() -> None:
    done = run(
        "gpu = Runtime('cuda12'); print(gpu.status('GetDeviceCount', ctypes.byref(ctypes.c_int())))",
        SIM_GPU_FAULTS="no_cards",
    )
    assert done.stdout == "100\n", done.stderr
    done = run("Runtime('cuda12').count('mallocs')", SIM_GPU_FAULTS="no_card")
    assert done.returncode == -signal.SIGABRT
    assert "not a fault: 'no_card'" in done.stderr


def test_size_of_the_machine() -> None:
    script = """
gpu = Runtime('rocm10'); count, free, total = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
gpu.call('GetDeviceCount', ctypes.byref(count))
gpu.call('MemGetInfo', ctypes.byref(free), ctypes.byref(total))
print(count.value, total.value)
"""
    done = run(script, SIM_GPU_CARDS="3", SIM_GPU_MEMORY="4096000")
    assert done.stdout == "3 4096000\n", done.stderr


def test_two_vendors_in_one_process() -> None:
    """Neither's faults, cards or memory are the other's."""
    script = """
both = Runtime('cuda12'), Runtime('cuda13'), Runtime('rocm7')
both[0].faults('oom:1')
print([gpu.status('Malloc', ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(9)) for gpu in both])
print([(Lt(gpu), gpu.count('handles'))[1] for gpu in both])
"""
    done = run(script)
    assert done.stdout == "[2, 0, 0]\n[1, 1, 1]\n", done.stderr


@pytest.mark.parametrize(
    ("path", "symbol"),
    [
        ("cuda13-nosearch/libcublasLt.so.13", "cublasLtMatmulAlgoGetIds"),
        ("cuda13-broken/libcublasLt.so.13", "cublasLtMatmul"),
        ("cuda12-broken/libcudart.so.12", "cudaEventElapsedTime"),
        ("rocm7-noext/libhipblaslt.so.1", "_ZN13hipblaslt_ext16getIndexFromAlgoER22_hipblasLtMatmulAlgo_t"),
        ("rocm7-broken/libhipblaslt.so.1", "hipblasLtMatmul"),
        ("rocm7-broken/librocblas.so.5", "rocblas_gemm_ex"),
    ],
)
def test_installations_that_lack_something(path: str, symbol: str) -> None:
    """A symbol that the full installation has, and nothing else is missing."""
    variant = FOLDER / "gpu_sim" / path
    full = FOLDER / "gpu_sim" / path.split("-")[0] / variant.name
    # In two processes: a library takes the runtime that is loaded already.
    found = [
        run(f"print(hasattr(ctypes.CDLL({str(each)!r}), {symbol!r}))").stdout for each in (variant, full)
    ]
    assert found == ["False\n", "True\n"]
