"""What the doctor says of cards: simulated libraries with faults, and machines made of files."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest
from onnxruntime_ep_tunableop import _core, _devices
from onnxruntime_ep_tunableop.doctor import machine, processor
from support.built import FOLDER
from support.doctor import Document, named, only_problem, problems, run
from support.gpu_sim import FLAVOURS, environment

OLDER = "pip install nvidia-cuda-runtime-cu12 nvidia-cublas-cu12"


def on(flavour: str, *arguments: str, faults: str = "", root: Path | None = None, **env: str) -> Document:
    """The doctor on a machine with one flavour of libraries; its files may be elsewhere."""
    sensors = {"TUNABLEOP_SENSORS_ROOT": str(root)} if root is not None else {}
    return run(*arguments, **environment(flavour, SIM_GPU_FAULTS=faults, **sensors, **env))


@pytest.mark.parametrize("flavour", ["cuda13", "cuda13-nosearch", "rocm7", "rocm7-noext"])
def test_cards_that_can_be_used(flavour: str) -> None:
    document = on(flavour)
    backend = "cuda" if flavour.startswith("cuda") else "hip"
    assert problems(document) == []
    check = named(document, f"machine.{backend}")
    assert check["verdict"] == "ok"
    folder = str(FOLDER / "gpu_sim" / flavour)
    assert any(folder in line for line in check["evidence"])  # which file it is
    assert check["evidence"][0].startswith(f"{backend}:0 ")
    assert document["default"] == f"{backend}:0"
    assert "cannot be used" not in str(document)


@pytest.mark.parametrize(
    ("flavour", "faults", "words"),
    [
        ("cuda13-broken", "", "has no cublasLtMatmul"),
        ("cuda12-broken", "", "has no symbol cudaEventElapsedTime"),
        ("cuda13", "old_library", "cublasLt 11.0.0 is older than 11.11"),
        ("rocm7-broken", "", "libhipblaslt.so.1 has no hipblasLtMatmul"),
        ("rocm7-broken", "", "librocblas.so.5 has no symbol rocblas_gemm_ex"),
    ],
)
def test_vendor_libraries_that_are_broken_or_too_old(flavour: str, faults: str, words: str) -> None:
    vendor = machine.NVIDIA if flavour.startswith("cuda") else machine.AMD
    check = only_problem(on(flavour, faults=faults), f"machine.{vendor.backend}")
    assert words in check["evidence"][0]
    assert check["remedy"] == f"name another folder in {vendor.variable}, or unset it"


@pytest.mark.parametrize("flavour", ["cuda13-broken", "rocm7-broken"])
def test_a_broken_card_is_no_problem_for_whoever_asks_for_the_cpu(flavour: str) -> None:
    document = on(flavour, "--device", "cpu")
    assert problems(document) == []
    backend = "cuda" if flavour.startswith("cuda") else "hip"
    assert named(document, f"machine.{backend}")["verdict"] == "warning"
    assert document["default"] == "cpu"


def test_one_of_two_libraries_that_is_too_old_is_a_warning() -> None:
    document = on("rocm7", faults="old_library")
    assert problems(document) == []
    check = named(document, "machine.hip")
    assert check["verdict"] == "warning"
    assert "hipBLASLt 0.3.0 is older than 0.6" in check["evidence"][0]


def test_a_library_without_kernels_for_the_card() -> None:
    document = on("rocm7", faults="lt_unsupported")
    check = named(document, "machine.hip")
    assert check["verdict"] == "warning"  # rocBLAS is there
    assert check["remedy"].startswith("install a version of the library that has kernels for this card")


@pytest.mark.parametrize(
    ("flavour", "remedy"),
    [("cuda13", "pip install nvidia-cuda-runtime-cu11 nvidia-cublas-cu11"), ("rocm7", machine.AMD.driver)],
)
def test_a_driver_that_is_too_old(flavour: str, remedy: str) -> None:
    backend = "cuda" if flavour.startswith("cuda") else "hip"
    check = only_problem(on(flavour, faults="old_driver"), f"machine.{backend}")
    assert check["remedy"] == remedy
    assert "is older than the runtime" in check["evidence"][0]


def test_libraries_without_a_driver_are_no_problem_where_there_is_no_card(tmp_path: Path) -> None:
    document = on("cuda13", faults="no_driver", root=tmp_path)
    assert problems(document) == []
    check = named(document, "machine.cuda")
    assert check["verdict"] == "note"
    assert check["remedy"] == "load the NVIDIA driver (nvidia-smi shows it)"


def card_on_bus(root: Path, vendor: str, kind: str = "0x030200") -> None:
    folder = root / "sys/bus/pci/devices/0000:1a:00.0"
    folder.mkdir(parents=True)
    for name, value in (("vendor", vendor), ("class", kind), ("device", "0x2335")):
        (folder / name).write_text(f"{value}\n")


@pytest.mark.parametrize(
    ("container", "remedy"),
    [(False, "load the NVIDIA driver (nvidia-smi shows it)"), (True, machine.NVIDIA.container)],
)
def test_a_card_without_a_driver(tmp_path: Path, container: bool, remedy: str) -> None:
    card_on_bus(tmp_path, "0x10de")
    if container:
        (tmp_path / ".dockerenv").touch()
    check = only_problem(on("cuda13", faults="no_driver", root=tmp_path), "machine.cuda")
    assert check["remedy"] == remedy
    assert any("on the PCI bus: 0000:1a:00.0, NVIDIA 0x2335" in line for line in check["evidence"])


def test_a_device_that_was_asked_for_and_has_no_driver() -> None:
    document = on("cuda13", "--device", "cuda", faults="no_driver", root=Path("/nowhere"))
    check = only_problem(document, "machine.device")
    assert check["remedy"] == "load the NVIDIA driver (nvidia-smi shows it)"


def test_hidden_cards() -> None:
    document = on("cuda13", "--device", "cuda:0", faults="no_cards", CUDA_VISIBLE_DEVICES="")
    assert only_problem(document, "machine.device")["remedy"] == "unset CUDA_VISIBLE_DEVICES"


def test_the_second_of_two_vendors_is_named() -> None:
    document = on("cuda13", "--device", "cuda:7")
    assert only_problem(document, "machine.device")["remedy"] == "--device cuda:1"


@pytest.mark.parametrize("variable", ["HIPBLASLT_TUNING_MODE", "HIPBLASLT_TUNING_FILE"])
def test_hipblaslt_that_tunes_inside_the_calls_that_are_measured(variable: str) -> None:
    check = only_problem(on("rocm7", **{variable: "1"}), "environment.second_tuner")
    assert check["remedy"] == f"unset {variable}"


def test_an_override_file_is_a_warning() -> None:
    document = on("rocm7", HIPBLASLT_TUNING_OVERRIDE_FILE="/x/tuned.txt")
    assert problems(document) == []
    check = named(document, "environment.second_tuner")
    assert (check["verdict"], check["remedy"]) == ("warning", "unset HIPBLASLT_TUNING_OVERRIDE_FILE")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_compiles_kernels(flavour: str, tmp_path: Path) -> None:
    check = named(on(flavour, TUNABLEOP_KERNEL_CACHE=str(tmp_path / "new")), "machine.kernels")
    assert check["verdict"] == "ok"
    compiler = "nvrtc" if flavour.startswith("cuda") else "hiprtc"
    assert check["evidence"][0].startswith(f"{compiler} ")
    assert str(FOLDER / "gpu_sim" / flavour / f"lib{compiler}.so.") in check["evidence"][0]
    assert check["evidence"][1:] == [f"kept in {tmp_path / 'new'}"]


@pytest.mark.parametrize(
    ("flavour", "library", "remedy"),
    [
        ("cuda13-nortc", "libnvrtc", "name the compiler's folder in TUNABLEOP_CUDA_PATH, too"),
        ("rocm7-noext", "libhiprtc", "name the compiler's folder in TUNABLEOP_ROCM_PATH, too"),
    ],
)
def test_a_card_without_a_compiler(flavour: str, library: str, remedy: str) -> None:
    document = on(flavour)
    assert problems(document) == []
    check = named(document, "machine.kernels")
    assert (check["verdict"], check["remedy"]) == ("warning", remedy)
    assert check["evidence"][0].startswith(f"{library}: {library}.so.")
    assert document["devices"][0]["missing"][library]
    assert document["devices"][0]["compiler"] == ""


def test_a_compiler_that_does_not_know_the_card_any_more() -> None:
    check = named(on("cuda13", faults="new_compiler"), "machine.kernels")
    assert "makes no code for sm_90" in check["evidence"][0]
    assert check["remedy"].startswith("install an older release of the compiler")


def test_a_folder_for_kernels_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check = named(on("cuda13", TUNABLEOP_KERNEL_CACHE=str(tmp_path / "file" / "kernels")), "machine.kernels")
    assert check["verdict"] == "warning"
    assert check["remedy"] == "set TUNABLEOP_KERNEL_CACHE to a folder that can be written to"
    check = named(on("cuda13", TUNABLEOP_KERNEL_CACHE="off"), "machine.kernels")
    assert check["verdict"] == "note"


def test_kernels_are_no_question_of_the_cpu() -> None:
    assert "machine.kernels" not in [check["name"] for check in on("cuda13", "--device", "cpu")["checks"]]


# What follows needs no libraries.


@pytest.mark.parametrize(
    ("backend", "runtime", "remedy"),
    [
        ("cuda", "13.0", "pip install nvidia-cuda-nvrtc"),
        ("cuda", "12.8", "pip install nvidia-cuda-nvrtc-cu12"),
        ("cuda", "11.8", "pip install nvidia-cuda-nvrtc-cu11"),
        ("hip", "7.1.51831", "apt-get install hip-runtime-amd"),
    ],
)
def test_what_brings_a_compiler(
    backend: str, runtime: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where ONNX Runtime has a provider of its own for the card, nobody must have one."""
    reason = "libnvrtc.so.13: not loaded already, and not in the loader's path"
    state = {"library": "libnvrtc", "available": False, "identity": "", "path": "", "reason": reason}
    monkeypatch.setattr(_core, "kernel_compiler", lambda *_card: state)
    card = {"backend": backend, "ordinal": 0, "runtime": runtime}
    monkeypatch.setattr(_core, "gpus", lambda: [card])
    chosen = _devices.Listed(None, backend, 0, "card", "", True)
    for vendor in machine.VENDORS:
        monkeypatch.delenv(vendor.variable, raising=False)
    for available, verdict in (((), "warning"), (_devices.STOCK[backend], "note")):
        monkeypatch.setattr(ort, "get_available_providers", lambda names=available: list(names))
        check = machine.kernels(chosen)
        assert check is not None
        assert (check.verdict, check.remedy) == (verdict, remedy)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with these cards and states of libraries, and no variables that lead elsewhere."""

    def set_up(reason: str, backend: str = "hip") -> None:
        names = {"cuda": ("libcudart", "libcublasLt"), "hip": ("libamdhip64", "libhipblaslt", "librocblas")}
        states = [
            {"library": name, "available": False, "identity": "", "path": "", "reason": text}
            for name, text in zip(
                names[backend], (reason, *["not looked for, since it is of no use"] * 2), strict=False
            )
        ]
        monkeypatch.setattr(_core, "gpus", list)
        monkeypatch.setattr(_core, "gpu_libraries", lambda: states)
        for vendor in machine.VENDORS:
            monkeypatch.delenv(vendor.variable, raising=False)

    return set_up


NOT_FOUND = "libamdhip64.so.7: not loaded already, and not in the loader's path (TUNABLEOP_ROCM_PATH names)"


def test_device_files_that_may_not_be_opened(
    bare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("/opt/rocm/lib/libamdhip64.so.7: no card")
    card_on_bus(tmp_path, "0x1002")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "kfd")
    check = machine.amd(tmp_path)
    assert check is not None
    assert (check.verdict, check.remedy) == (
        "problem",
        'sudo usermod -aG render,video "$USER" (and log in again)',
    )
    assert check.evidence[0] == "/dev/kfd may not be opened by this user"


def test_a_card_whose_libraries_are_not_installed(bare: Any, tmp_path: Path) -> None:
    bare(NOT_FOUND)
    none = machine.amd(tmp_path)
    assert none is not None
    assert none.verdict == "ok"
    card_on_bus(tmp_path, "0x1002")
    check = machine.amd(tmp_path)
    assert check is not None
    assert (check.verdict, check.remedy) == ("warning", "apt-get install hipblaslt rocblas")


def test_an_empty_folder_that_a_variable_names(
    bare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(NOT_FOUND)
    card_on_bus(tmp_path, "0x1002")
    monkeypatch.setenv("TUNABLEOP_ROCM_PATH", str(tmp_path))
    check = machine.amd(tmp_path)
    assert check is not None
    assert check.remedy == "unset TUNABLEOP_ROCM_PATH"


def test_a_driver_for_which_there_are_older_libraries(bare: Any, tmp_path: Path) -> None:
    bare("/x/libcudart.so.13: the driver (12.4) is older than the runtime (13.0): update it", "cuda")
    check = machine.nvidia(tmp_path)
    assert check is not None
    assert (check.verdict, check.remedy) == ("problem", OLDER)


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "50000 100000"}, 0.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/d\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/d/cpu.cfs_quota_us": "200000",
                "sys/fs/cgroup/cpu,cpuacct/d/cpu.cfs_period_us": "100000",
            },
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/d\n",
                "sys/fs/cgroup/cpu/d/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/d/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_limits_of_control_groups(tmp_path: Path, files: dict[str, str], processors: float | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processor.cpu_quota(tmp_path) == processors


def test_more_threads_than_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3, 4, 5, 6, 7})
    for cpu in range(8):  # four cores with two threads each
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    limit = tmp_path / "sys/fs/cgroup/cpu.max"
    limit.write_text("400000 100000\n")
    check = processor.threads(tmp_path)
    assert check is not None
    assert check.verdict == "ok"
    limit.write_text("250000 100000\n")
    check = processor.threads(tmp_path)
    assert check is not None
    assert (check.verdict, check.remedy) == ("warning", "sess_options.intra_op_num_threads = 2")


def test_every_vendor_is_described() -> None:
    for vendor in machine.VENDORS:
        assert all(
            getattr(vendor, field.name)
            for field in dataclasses.fields(vendor)
            if not field.name.startswith("older")
        )


@pytest.mark.parametrize(
    ("flavour", "name", "size"),
    [
        ("rocm7", "libamdhip64.so.7", 8000),
        ("rocm7", "libhipblaslt.so.1", 3000),
        ("cuda13", "libcudart.so.13", 3000),
    ],
)
def test_a_library_that_ends_the_process(tmp_path: Path, flavour: str, name: str, size: int) -> None:
    """Cut short, as by a download that broke off: the doctor lives, and looks at everything else."""
    folder = Path(shutil.copytree(FOLDER / "gpu_sim" / flavour, tmp_path / flavour))
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / name).write_bytes(content[:size])
    vendor = machine.NVIDIA if flavour.startswith("cuda") else machine.AMD
    variables = environment(flavour) | {vendor.variable: str(folder)}
    document = run(**variables)
    check = only_problem(document, "machine.loading")
    assert f"a process that used the libraries of {vendor.name} was ended by SIG" in check["evidence"][0]
    assert check["remedy"] == f"name another folder in {vendor.variable}, or unset it"
    assert document["default"] == "cpu"
    assert named(document, "runtime.by_name")["verdict"] == "ok"
    on_it = run("--device", vendor.backend, **variables)
    assert only_problem(on_it, "machine.loading")["remedy"] == check["remedy"]
    assert "clocks" in on_it["not_asked"]
