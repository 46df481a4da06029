"""Which environment variables are set, known, taken by the native side; and which start a second tuner."""

from __future__ import annotations

import ctypes
import difflib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .check import Finding, Verdict, asks, worst

PREFIX = "TUNABLEOP_"

#: Every variable of this project, and what it does.
KNOWN = {
    "TUNABLEOP_ENABLE": "0: tuning=off unless a session says otherwise",
    "TUNABLEOP_WARMUP_ITER": "as option warmup_iter",
    "TUNABLEOP_CACHE_SIZE": "as option cache_size",
    "TUNABLEOP_MEASURE_MODE": "as option measure_mode",
    "TUNABLEOP_REVALIDATE_MS": "as option revalidate_ms",
    "TUNABLEOP_VERBOSE": "1: a line for each call on stderr",
    "TUNABLEOP_CUDA_PATH": "folders of NVIDIA's libraries; nothing else is looked at",
    "TUNABLEOP_ROCM_PATH": "folders of AMD's libraries; nothing else is looked at",
    "TUNABLEOP_OPENBLAS_LIBRARY": "the file of OpenBLAS",
    "TUNABLEOP_CANDIDATE_LIBRARIES": "libraries of further kernels",
    "TUNABLEOP_NVML_LIBRARY": "the file of NVML",
    "TUNABLEOP_KERNEL_CACHE": "the folder of compiled kernels; off: they are not kept",
    "TUNABLEOP_SENSORS_ROOT": "for tests: where /sys and /proc are looked for",
    "TUNABLEOP_MODEL_CACHE": "where downloaded models are kept",
    "TUNABLEOP_SERVE_TOKEN": "what clients of tunableop serve must send",
    # of the project's own tests
    "TUNABLEOP_TESTS_DIR": "for tests",
    "TUNABLEOP_TEST_DEVICE": "for tests",
    "TUNABLEOP_SANITIZED": "for tests",
    "TUNABLEOP_UBSAN_REPORTS": "for tests",
    "TUNABLEOP_UBSAN_RUNTIME": "for tests",
}
#: Those that the native side reads when a session is made, and judges.
JUDGED = tuple(list(KNOWN)[:6])
_FOLDERS = ("TUNABLEOP_CUDA_PATH", "TUNABLEOP_ROCM_PATH")
_SECRET = ("TUNABLEOP_SERVE_TOKEN",)  # reports are pasted into issues
_MADE = ("TUNABLEOP_MODEL_CACHE",)  # a folder that is made when it is missing
_FILES = ("TUNABLEOP_OPENBLAS_LIBRARY", "TUNABLEOP_NVML_LIBRARY", "TUNABLEOP_CANDIDATE_LIBRARIES")

#: How alike a name without our prefix must be to be one of ours misspelt (1: the same).
_CLOSE = 0.88

#: Tuners of others, and what happens beside them. A value of 0 or nothing switches them off.
TUNERS = {
    "PYTORCH_TUNABLEOP_ENABLED": "PyTorch tunes its own products in the same process, and measurements meet",
    "PYTORCH_TUNABLEOP_TUNING": "PyTorch tunes its own products in the same process, and measurements meet",
    "HIPBLASLT_TUNING_MODE": "hipBLASLt tunes by itself inside every call that is being measured",
    "HIPBLASLT_TUNING_FILE": "hipBLASLt tunes by itself, or writes down what is called, inside every call",
    "HIPBLASLT_TUNING_OVERRIDE_FILE": "hipBLASLt's first choice, the default to be beaten, comes from a file",
    "ROCBLAS_TENSILE_GEMM_OVERRIDE_PATH": "rocBLAS's own choice, the default to be beaten, comes from a file",
    "TENSILE_SOLUTION_SELECTION_METHOD": "the libraries choose their defaults in another way",
    "HIP_ONLINE_TUNING": "AITER tunes in the same process, and measurements meet",
    "AITER_TUNE_GEMM": "AITER writes down products in the same process",
    "VLLM_ROCM_USE_AITER_HIP_ONLINE_TUNING": "AITER tunes in the same process, and measurements meet",
    "VLLM_TUNE_GEMM": "vLLM tunes in the same process, and measurements meet",
    "ORT_ROCM_TUNABLE_OP_TUNING_ENABLE": "ONNX Runtime's ROCm provider tunes, too, and measurements meet",
    "MIGRAPHX_MLIR_TUNING_DB": "MIGraphX takes kernels from a tuning file of its own",
    "MIGRAPHX_PROBLEM_CACHE": "MIGraphX keeps choices of kernels of its own",
}
#: Those that tune inside the very calls that are measured here.
_INSIDE = {"HIPBLASLT_TUNING_MODE", "HIPBLASLT_TUNING_FILE"}
#: Other kernels, or less precise ones, than the library's version says.
ALTERING = {
    "ROCBLAS_TENSILE_LIBPATH": "rocBLAS has other kernels than its version says",
    "HIPBLASLT_TENSILE_LIBPATH": "hipBLASLt has other kernels than its version says",
    "HIPBLASLT_OVERRIDE_COMPUTE_TYPE_XF32": "fp32 products of hipBLASLt lose precision",
    "ROCBLAS_CHECK_NUMERICS": "rocBLAS looks for NaN in operands, which takes time in every call",
}


def _set(environ: Mapping[str, str]) -> list[str]:
    """Our variables that are set. An empty one counts as not set, as for the native side."""
    return sorted(name for name, value in environ.items() if name.startswith(PREFIX) and value)


def nearest(name: str) -> str | None:
    """The known variable that `name` was meant to be."""
    found = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return found[0] if found else None


def _misspelt(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Variables that nobody reads, with what they were meant to be."""
    unknown: dict[str, str | None] = {name: nearest(name) for name in _set(environ) if name not in KNOWN}
    for name, value in environ.items():
        if name.startswith(PREFIX) or "TUN" not in name.upper() or not value:
            continue
        if close := difflib.get_close_matches(name.upper(), KNOWN, n=1, cutoff=_CLOSE):
            unknown[name] = close[0]
    return unknown


@asks("environment.names", "is every TUNABLEOP_* variable one that is read?")
def names(environ: Mapping[str, str] = os.environ) -> Finding:
    """Every variable is one that somebody reads."""
    unknown = _misspelt(environ)
    evidence = [
        f"{key} is read by nobody" + (f"; {close} is" if close else "") for key, close in unknown.items()
    ]
    unseen = [key for key in _set(environ) if key in KNOWN and not _seen(key, environ[key])]
    evidence += [f"{key} is set in Python only: the native side does not see it" for key in unseen]
    shown = {key: "(not shown)" if key in _SECRET else environ[key] for key in _set(environ)}
    evidence += [f"{key}={value} ({KNOWN[key]})" for key, value in shown.items() if key in KNOWN]
    if not evidence:
        evidence = ["none is set"]
    if not unknown and not unseen:
        return Finding("ok", evidence)
    steps = [f"export {key}={shlex.quote(environ[key])}" for key in unseen]
    for key, close in unknown.items():
        # What is set already is not to be overwritten by what was misspelt.
        rename = close is not None and not environ.get(close)
        steps.append(f"unset {key}" + (f"; export {close}={shlex.quote(environ[key])}" if rename else ""))
    meant = [close for close in unknown.values() if close is not None]
    verdict: Verdict = "problem" if meant or unseen else "warning"
    return Finding(verdict, evidence, "; ".join(steps))


def _seen(name: str, value: str) -> bool:
    """Whether the C library has it: os.putenv and os.environ may differ."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    found = getenv(os.fsencode(name))
    # A caller that asks about another environment than this process's gets no answer about it.
    return os.environ.get(name) != value or found == os.fsencode(value)


@contextmanager
def _without(variables: list[str]) -> Iterator[None]:
    """Runs with these variables not set; they come back."""
    kept = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


@asks("environment.values", "does the native side take the values?")
def values() -> Finding:
    """What the native side says of each value: a session with a wrong one cannot be made."""
    from ..errors import OptionError
    from . import trial

    wrong: dict[str, str] = {}
    while len(wrong) < len(JUDGED):
        try:
            with _without(list(wrong)):
                trial.session(device="cpu")
            break
        except OptionError as error:
            found = re.search(r"environment variable '(\w+)'", str(error))
            if found is None or found[1] in wrong:
                raise
            wrong[found[1]] = str(error)
    judged = [key for key in JUDGED if os.environ.get(key)]
    if wrong:
        return Finding("problem", list(wrong.values()), f"unset {' '.join(wrong)}")
    if os.environ.get("TUNABLEOP_ENABLE") == "0":
        evidence = ["TUNABLEOP_ENABLE=0: sessions run the default kernels and measure nothing"]
        return Finding("warning", evidence, "unset TUNABLEOP_ENABLE")
    evidence = [f"taken: {', '.join(judged)}"] if judged else ["none of those that it judges is set"]
    return Finding("ok", evidence)


@asks("environment.paths", "do the paths in variables lead somewhere?")
def paths(environ: Mapping[str, str] = os.environ) -> Finding:
    """Folders and files that variables name exist, and hide nothing."""
    evidence: list[str] = []
    verdicts: list[Verdict] = []
    unset: list[str] = []
    for key in _FOLDERS:
        folders = [folder for folder in environ.get(key, "").split(":") if folder]
        if folders and not any(Path(folder).is_dir() for folder in folders):
            evidence.append(f"{key}={environ[key]}: no such folder, and no other place is looked at")
            verdicts.append("warning")
            unset.append(key)
    for key in _FILES:
        for file in filter(None, environ.get(key, "").split(":")):
            if "/" in file and not Path(file).is_file():
                evidence.append(f"{key}={environ[key]}: no such file")
                verdicts.append("warning")
                unset.append(key)
    loader = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    stubs = [folder for folder in loader if Path(folder).name == "stubs"]
    if stubs:
        evidence.append(
            f"LD_LIBRARY_PATH has {stubs[0]}: libraries there are for linking, and have no driver"
        )
        verdicts.append("warning")
        rest = ":".join(folder for folder in loader if folder not in stubs)
        remedy = f"export LD_LIBRARY_PATH={shlex.quote(rest)}" if rest else "unset LD_LIBRARY_PATH"
    else:
        remedy = ""
    gone = [folder for folder in loader if not Path(folder).is_dir()]
    evidence += [f"LD_LIBRARY_PATH has {folder}, which is no folder" for folder in gone]
    verdicts += ["note"] * len(gone)
    if unset:
        remedy = "; ".join(filter(None, [f"unset {' '.join(dict.fromkeys(unset))}", remedy]))
    if not evidence:
        named = [key for key in (*_FOLDERS, *_FILES, *_MADE, "LD_LIBRARY_PATH") if environ.get(key)]
        evidence = [f"{key}={environ[key]}" for key in named] or ["none names a path"]
    return Finding(worst(verdicts), evidence, remedy)


@asks("environment.second_tuner", "is another tuner active, which would tune twice?")
def second_tuner(environ: Mapping[str, str] = os.environ, *, amd: bool = False) -> Finding:
    """Nobody else tunes or chooses. `amd`: sessions run on an AMD card, where it matters most."""
    evidence: list[str] = []
    unset: list[str] = []
    for key, what in (TUNERS | ALTERING).items():
        if environ.get(key, "") not in ("", "0"):
            if key == "PYTORCH_TUNABLEOP_TUNING" and environ.get("PYTORCH_TUNABLEOP_ENABLED", "0") == "0":
                continue  # it does nothing alone
            evidence.append(f"{key}={environ[key]}: {what}")
            unset.append(key)
    if not evidence:
        return Finding("ok", ["no variable of another tuner is set"])
    verdict: Verdict = "problem" if amd and not _INSIDE.isdisjoint(unset) else "warning"
    return Finding(verdict, evidence, f"unset {' '.join(unset)}")
