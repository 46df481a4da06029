"""Set-ups that are broken on purpose: the doctor names the one cause and the one remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.doctor import copy_package, distribution, fake_onnxruntime, named, only_problem, problems, run

LIBRARY = "libonnxruntime_providers_tunableop.so"
REINSTALL = "pip install --force-reinstall --no-deps onnxruntime-ep-tunableop"


def test_a_whole_setup_has_no_problem() -> None:
    document = run(drop=tuple(name for name in os.environ if name.startswith("TUNABLEOP_")))
    assert problems(document) == []
    parts = {check["name"].partition(".")[0] for check in document["checks"]}
    assert parts == {"library", "runtime", "environment", "machine", "clocks"}
    assert document["not_asked"] == {}


def test_a_missing_library(tmp_path: Path) -> None:
    (copy_package(tmp_path) / LIBRARY).unlink()
    document = run(path=tmp_path)
    check = only_problem(document, "library.file")
    assert check["remedy"] == REINSTALL
    assert check["evidence"] == [f"{tmp_path}/onnxruntime_ep_tunableop/{LIBRARY} is missing"]
    assert set(document["not_asked"]) == {"machine", "clocks"}


@pytest.mark.parametrize(("size", "words"), [(0, "file too short"), (3000, ""), (None, "invalid ELF header")])
def test_a_damaged_library(tmp_path: Path, size: int | None, words: str) -> None:
    """Cut anywhere, or something else: loading it may kill a process, and never the doctor's."""
    file = copy_package(tmp_path) / LIBRARY
    content = file.read_bytes()
    file.write_bytes(b"<html>not found</html>" * 1000 if size is None else content[:size])
    check = only_problem(run(path=tmp_path), "library.file")
    assert check["remedy"] == REINSTALL
    assert words in check["evidence"][0]


def test_a_library_cut_in_its_middle(tmp_path: Path) -> None:
    file = copy_package(tmp_path) / LIBRARY
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert only_problem(run(path=tmp_path), "library.file")["remedy"] == REINSTALL


def test_a_library_for_a_newer_c_library(tmp_path: Path) -> None:
    """The name of a version that no glibc has yet, in the place of the one that is needed."""
    file = copy_package(tmp_path) / LIBRARY
    content = file.read_bytes()
    wanted = max(name for name in (b"GLIBC_2.34\0", b"GLIBC_2.32\0", b"GLIBC_2.14\0") if name in content)
    file.write_bytes(content.replace(wanted, wanted[:-3] + b"99\0"))
    check = only_problem(run(path=tmp_path), "library.file")
    assert "GLIBC_2.99" in check["evidence"][0]
    assert any("needs glibc 2.99; here is glibc 2." in line for line in check["evidence"])
    assert check["remedy"].startswith("pip install --force-reinstall --no-deps --no-binary ")


def test_a_damaged_native_module(tmp_path: Path) -> None:
    """The package cannot even be imported: the doctor answers all the same, and others get the remedy."""
    (module,) = copy_package(tmp_path).glob("_core.*.so")
    module.write_bytes(module.read_bytes()[:1000])
    check = only_problem(run(path=tmp_path), "library.version")  # importing it would end the process
    assert check["remedy"] == REINSTALL
    module.write_bytes(b"no library at all")
    assert only_problem(run(path=tmp_path), "library.version")["remedy"] == REINSTALL
    done = subprocess.run(
        [sys.executable, "-c", "import onnxruntime_ep_tunableop"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError: onnxruntime_ep_tunableop cannot be imported: the native module" in done.stderr
    assert f"what helps: {REINSTALL}" in done.stderr


def test_parts_of_different_versions(tmp_path: Path) -> None:
    distribution(tmp_path, "onnxruntime-ep-tunableop", "9.9.9")
    check = only_problem(run(path=tmp_path), "library.version")
    assert check["remedy"] == REINSTALL
    assert "installed: onnxruntime-ep-tunableop 9.9.9" in check["evidence"]


def test_an_onnxruntime_that_is_too_old(tmp_path: Path) -> None:
    fake_onnxruntime(tmp_path, "1.23.2")
    check = only_problem(run(path=tmp_path), "runtime.version")
    assert check["remedy"] == 'pip install -U "onnxruntime>=1.24"'
    assert check["evidence"][0] == "it is too old to load plugin providers of this kind"
    assert "onnxruntime 1.23.2" in check["evidence"][1]


def test_the_rocm_build_of_onnxruntime_has_no_newer_release(tmp_path: Path) -> None:
    fake_onnxruntime(tmp_path, "1.22.2")
    (tmp_path / "onnxruntime-1.22.2.dist-info" / "METADATA").write_text(
        "Name: onnxruntime\nVersion: 1.22.2\n"
    )
    distribution(tmp_path, "onnxruntime-rocm", "1.22.2")
    document = run(path=tmp_path)
    check = named(document, "runtime.version")
    assert check["verdict"] == "problem"
    assert check["remedy"] == 'pip uninstall -y onnxruntime-rocm && pip install -U "onnxruntime>=1.24"'


def test_what_pip_left_of_an_onnxruntime(tmp_path: Path) -> None:
    """A folder without an __init__.py, as uninstalling one of two builds leaves it."""
    (tmp_path / "onnxruntime" / "capi").mkdir(parents=True)
    (tmp_path / "onnxruntime" / "__init__.py").write_text("")
    distribution(tmp_path, "onnxruntime", "1.32.0")
    check = only_problem(run(path=tmp_path), "runtime.version")
    assert check["remedy"] == (
        'pip uninstall -y onnxruntime && pip install --force-reinstall "onnxruntime>=1.25"'
    )
    assert check["evidence"][0] == "it has no InferenceSession and no SessionOptions"


def test_a_folder_that_hides_the_installed_onnxruntime(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("")
    check = only_problem(run(path=tmp_path), "runtime.version")
    assert check["remedy"] == f"rename {tmp_path}/onnxruntime, or take it off PYTHONPATH"


def test_two_builds_of_onnxruntime(tmp_path: Path) -> None:
    distribution(tmp_path, "onnxruntime-gpu", "1.20.0")
    document = run(path=tmp_path)
    check = only_problem(document, "runtime.distributions")
    assert check["remedy"] == (
        "pip uninstall -y onnxruntime-gpu onnxruntime && "
        'pip install --force-reinstall "onnxruntime-gpu>=1.25"'
    )
    if "CUDAExecutionProvider" not in document["providers"]:
        assert any("it was overwritten" in line for line in check["evidence"])


def test_a_misspelt_variable() -> None:
    check = only_problem(run(TUNABLEOP_ENABEL="0"), "environment.names")
    assert check["remedy"] == "unset TUNABLEOP_ENABEL; export TUNABLEOP_ENABLE=0"
    assert check["evidence"][0] == "TUNABLEOP_ENABEL is read by nobody; TUNABLEOP_ENABLE is"


def test_a_wrong_value_in_a_variable() -> None:
    """It is what keeps every session from being made: nothing that rests on one is asked."""
    document = run(TUNABLEOP_CACHE_SIZE="lots", TUNABLEOP_WARMUP_ITER="-1", TUNABLEOP_MEASURE_MODE="1")
    check = only_problem(document, "environment.values")
    assert check["remedy"] == "unset TUNABLEOP_WARMUP_ITER TUNABLEOP_CACHE_SIZE"
    assert "expected an integer from 1 to 1048576, found 'lots'" in "".join(check["evidence"])
    assert set(document["not_asked"]) == {"clocks"}


def test_a_variable_that_switches_it_off() -> None:
    document = run(TUNABLEOP_ENABLE="0")
    assert problems(document) == []
    check = named(document, "environment.values")
    assert (check["verdict"], check["remedy"]) == ("warning", "unset TUNABLEOP_ENABLE")


def test_a_second_tuner() -> None:
    document = run(PYTORCH_TUNABLEOP_ENABLED="1", PYTORCH_TUNABLEOP_TUNING="1", HIPBLASLT_TUNING_MODE="0")
    assert problems(document) == []
    check = named(document, "environment.second_tuner")
    assert check["verdict"] == "warning"
    assert check["remedy"] == "unset PYTORCH_TUNABLEOP_ENABLED PYTORCH_TUNABLEOP_TUNING"


@pytest.mark.parametrize(
    ("option", "remedy", "words"),
    [
        ("tunning=online", "--option tuning=online", "there is no option 'tunning'"),
        ("tuning=onlin", "--option tuning=online", "expected one of off, cached, online"),
        ("cache_size=-1", "--option cache_size=2048", "expected an integer from 1 to 1048576, found '-1'"),
        ("colour=red", "leave out --option colour=...: the options are tuning, cache", "no option 'colour'"),
        ("verify=yes", "--option verify=1", "expected 0 or 1, found 'yes'"),
    ],
)
def test_a_wrong_option(option: str, remedy: str, words: str) -> None:
    check = only_problem(run("--option", option), "options.values")
    assert check["remedy"].startswith(remedy)
    assert words in check["evidence"][0]


def test_right_options_are_no_problem() -> None:
    document = run(
        "--option", "tuning=background", "--option", "cache=/nowhere/x.json", "--option", "min_gain=0.1"
    )
    assert problems(document) == []
    assert named(document, "options.values")["verdict"] == "ok"


def test_a_device_that_is_not_there() -> None:
    document = run("--device", "cpu:3")
    assert only_problem(document, "machine.device")["remedy"] == "--device auto"
    assert set(document["not_asked"]) == {"clocks"}
