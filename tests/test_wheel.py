"""What users install holds nothing that only tests use."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "onnxruntime_ep_tunableop"


def wheel() -> dict[str, bytes]:
    """The files of the newest wheel in dist/."""
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        pytest.skip("dist/ has no wheel: make test builds one")
    with zipfile.ZipFile(wheels[-1]) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def installed() -> dict[str, bytes]:
    """The files of the package that these tests import."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    return {str(p.relative_to(folder.parent)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("files", [wheel, installed], ids=["wheel", "installed"])
def test_no_code_of_tests_is_in_the_package(files) -> None:
    content = files()
    libraries = sorted(Path(name).name.split(".")[0] for name in content if re.search(r"\.so\b", name))
    assert libraries == ["_core", "libonnxruntime_providers_tunableop"]
    for name, data in content.items():
        if not re.search(r"\.so\b", name):
            continue
        for word in (b"simulated", b"Simulated", b"hammer", b"Hammer", b"tune_real", b"FAULTY_KERNELS"):
            assert word not in data, f"{name} holds {word.decode()}"
    # The self-test is for users.
    assert not [name for name in content if "test" in Path(name).name.lower().replace("selftest", "")]


@pytest.mark.parametrize("files", [wheel, installed], ids=["wheel", "installed"])
def test_the_shapes_of_the_benchmark_are_in_the_package(files) -> None:
    source = ROOT / "python" / PACKAGE / "bench" / "shapes.csv"
    assert files()[f"{PACKAGE}/bench/shapes.csv"] == source.read_bytes()


def test_the_extension_holds_what_its_stub_says() -> None:
    from onnxruntime_ep_tunableop import _core

    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    stub = Path(spec.origin).with_name("_core.pyi").read_text(encoding="utf-8")
    said = set(re.findall(r"^(?:def|class) (\w+)(?=:|\((?!TypedDict|Call\)))", stub, re.MULTILINE))
    assert {name for name in dir(_core) if not name.startswith("__")} == said
