"""Where the vendors' libraries are looked for, in trees of files that can be loaded and do nothing."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from support.built import FOLDER, built

FINDABLE = built("libtunableop_findable.so")
SONAME_INSIDE = b"libtunableop_findable_soname.so"
Surroundings = native.VendorSurroundings

# Every test's libraries have names of their own: what one has loaded, the next would find in the process.
numbers = itertools.count()


def new_stem() -> str:
    return f"libfound{os.getpid():x}x{next(numbers)}"


def put(path: Path, inside: str | None = None) -> Path:
    """A library at `path` that has the name `inside` inside; None: one without a version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = FINDABLE.read_bytes()
    if inside is not None:
        assert len(inside) <= len(SONAME_INSIDE)
        content = content.replace(SONAME_INSIDE, inside.encode().ljust(len(SONAME_INSIDE), b"\0"))
    path.write_bytes(content)
    return path


def find(vendor: str, sonames: list[str], **surroundings: Any) -> Path:
    return Path(native.find_vendor_library(vendor, sonames, Surroundings(**surroundings)))


def run(script: str, **env: str) -> str:
    """In a process of its own, whose environment is read once."""
    source = f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\nimport tunableop_native_tests as native\n"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNABLEOP_")}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", source + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**clean, **env},
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


NAMES = [
    ("libcudart.so.13", "libcudart.so.13", 3),
    ("libcudart.so.13.0.48", "libcudart.so.13", 3),
    ("libcudart-1f0a37b4.so.13.0.48", "libcudart.so.13", 2),
    ("libcudart-1f0a37b4.so.11.0", "libcudart.so.11.0", 2),
    ("libcudart.so", "libcudart.so.13", 1),
    ("libcudart-1f0a37b4.so", "libcudart.so.13", 1),
    ("libcudart.so.130", "libcudart.so.13", 0),
    ("libcudart.so.1", "libcudart.so.13", 0),
    ("libcudart.so.12", "libcudart.so.13", 0),
    ("libcudart.so.11.8.89", "libcudart.so.11.0", 0),
    ("libcudart_static.a", "libcudart.so.13", 0),
    ("libcudart-static.so.13", "libcudart.so.13", 0),
    ("libcublasLt.so.13", "libcublas.so.13", 0),
    ("libcudart.so13", "libcudart.so.13", 0),
    ("libcudart.so.", "libcudart.so.13", 0),
    ("libcudart", "libcudart.so.13", 0),
    ("", "libcudart.so.13", 0),
]


@pytest.mark.parametrize(("file", "soname", "fit"), NAMES)
def test_names(file: str, soname: str, fit: int) -> None:
    assert native.vendor_name_fit(file, soname) == fit


# The places of one search, in the order that docs/gpu-libraries.md gives. CUDA_HOME's is one of the
# installs, so that a folder can stand in two places.
def places(root: Path, vendor: str) -> list[Path]:
    if vendor == "nvidia":
        return [
            root / "cuda_path/lib64",
            root / "cuda_path/lib",
            root / "cuda_home/lib64",
            root / "usr/local/cuda/lib64",
            root / "usr/local/cuda-12.10/lib64",
            root / "usr/local/cuda-12.9/lib64",
            root / "packages/nvidia/cu13/lib",
            root / "packages/nvidia/cuda_runtime/lib",
            root / "packages/nvidia/cublas/lib",
            root / "packages/torch/lib",
        ]
    return [
        root / "cuda_path/lib64",
        root / "cuda_path/lib",
        root / "cuda_home/lib64",
        root / "opt/rocm/lib",
        root / "opt/rocm/core-7.14/lib",
        root / "opt/rocm-7.2.0/lib",
        root / "opt/rocm-6.4.1/lib",
        root / "packages/_rocm_sdk_core/lib",
        root / "packages/_rocm_sdk_libraries_gfx94X_dcgpu/lib",
        root / "packages/torch/lib",
    ]


def surroundings(root: Path, chosen: str = "") -> dict[str, Any]:
    return {
        "chosen": chosen,
        "installs": [str(root / "cuda_path"), str(root / "cuda_home")],
        "own_library": str(root / "packages/onnxruntime_ep_tunableop/ours.so"),
        "root": str(root),
    }


# What may lie in a folder, the best first: two versions that are asked for, the newer one first.
FORMS = ["{}.so.13", "{}-0a1b2c3d.so.13", "{}.so.12", "{}-0a1b2c3d.so.12.1", "{}.so", "{}-0a1b2c3d.so"]


@given(
    vendor=st.sampled_from(["nvidia", "amd"]),
    there=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(FORMS)), max_size=4),
    chosen=st.none() | st.lists(st.tuples(st.integers(0, 2), st.sampled_from(FORMS)), max_size=2),
)
@settings(max_examples=80, deadline=None)
def test_the_first_place_that_has_one_wins_and_there_the_newest(
    tmp_path_factory: pytest.TempPathFactory,
    vendor: str,
    there: list[tuple[int, str]],
    chosen: list[tuple[int, str]] | None,
) -> None:
    """Whatever lies where."""
    root, stem = tmp_path_factory.mktemp("search"), new_stem()
    folders = places(root, vendor)
    for place, form in there:
        put(folders[place] / form.format(stem))
    variable = ""
    expected = min(((place, FORMS.index(form)) for place, form in there), default=None)
    if chosen is not None:  # and nothing else counts
        folders = [root / "mine", root / "mine/lib", root / "mine/lib64"]
        for place, form in chosen:
            put(folders[place] / form.format(stem))
        variable = f"{root}/none:{root}/mine"
        expected = min(((place, FORMS.index(form)) for place, form in chosen), default=None)
    sonames = [f"{stem}.so.13", f"{stem}.so.12"]
    where = surroundings(root, variable)
    if expected is None:
        with pytest.raises(FileNotFoundError) as error:
            find(vendor, sonames, **where)
        assert sonames[0] in str(error.value)
        assert ("mine" in str(error.value)) == bool(variable)
        return
    found = find(vendor, sonames, **where)
    assert found == folders[expected[0]] / FORMS[expected[1]].format(stem)
    # And what was loaded is found again, wherever else something lies by now.
    if found.name in sonames:
        put(root / "late" / sonames[0])
        assert find(vendor, [found.name], chosen=str(root / "late")) == found


@pytest.mark.parametrize(
    ("file", "inside"),
    [("{}.so.7", None), ("renamed.so", "{}.so.7"), ("{}-0a1b2c3d.so.7.1", None), ("{}.so", None)],
)
def test_what_is_loaded_already_comes_before_what_was_chosen(
    tmp_path: Path, file: str, inside: str | None
) -> None:
    """By the name that it has inside, or by its file's."""
    stem = new_stem()
    path = put(tmp_path / file.format(stem), inside and inside.format(stem))
    other = put(tmp_path / "chosen" / f"{stem}.so.7")
    script = f"""
        import ctypes
        def find():
            surroundings = native.VendorSurroundings(chosen={str(other.parent)!r})
            return native.find_vendor_library("amd", [{f"{stem}.so.7"!r}], surroundings)
        if len(sys.argv) == 1:
            ctypes.CDLL({str(path)!r})
        print(find())
    """
    assert run(script) == f"{path}\n"
    assert run("sys.argv.append('-')\n" + textwrap.dedent(script)) == f"{other}\n"


def test_the_loaders_path_comes_after_what_was_chosen_and_before_installs(tmp_path: Path) -> None:
    stem = new_stem()
    soname = f"{stem}.so.7"
    in_path, chosen = put(tmp_path / "path" / soname, soname), put(tmp_path / "chosen" / soname, soname)
    installed = put(tmp_path / "rocm" / "lib" / soname, soname)
    script = f"print(native.find_vendor_library('amd', [{soname!r}], native.VendorSurroundings(%s)))"
    installs = f"installs=[{str(tmp_path / 'rocm')!r}]"
    path = str(in_path.parent)
    assert run(script % installs, LD_LIBRARY_PATH=path) == f"{in_path}\n"
    assert run(script % installs) == f"{installed}\n"
    both = f"{installs}, chosen={str(chosen.parent)!r}"
    assert run(script % both, LD_LIBRARY_PATH=path) == f"{chosen}\n"
    nothing = f"{installs}, chosen={str(tmp_path / 'none')!r}"
    assert "not in TUNABLEOP_ROCM_PATH" in run(
        f"""
        try:
            {script % nothing}
        except FileNotFoundError as error:
            print(error)
        """,
        LD_LIBRARY_PATH=path,
    )


def test_folders_of_this_process(tmp_path: Path) -> None:
    for variable, vendor in [
        ("CUDA_PATH", "nvidia"),
        ("CUDA_HOME", "nvidia"),
        ("ROCM_PATH", "amd"),
        ("ROCM_HOME", "amd"),
    ]:
        folder = tmp_path / variable / "lib"
        folder.mkdir(parents=True)
        script = f"print(native.vendor_folders({vendor!r})[0])"
        assert run(script, **{variable: f"{folder.parent}/"}) == f"{folder}\n"


# What may be wrong with a file.
def other_processor(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    path.write_bytes(content)


def other_word_size(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4] = 1  # EI_CLASS: 32 bits
    path.write_bytes(content)


def no_library(path: Path) -> None:
    path.write_text("a linker script, or a page that says 404\n" * 50)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [
    (other_processor, "another kind of processor: ELF machine 243"),
    (other_word_size, "ELFCLASS32"),
    (no_library, "invalid ELF header"),
    (truncated, "file too short"),
    (empty, "file too short"),
    (a_folder, "Is a directory"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_file_that_cannot_be_loaded(tmp_path: Path, damage: Any, words: str) -> None:
    """Is named with the loader's words, and passed over where there is a good one."""
    stem = new_stem()
    bad = put(tmp_path / "bad" / f"{stem}.so.13")
    damage(bad)
    chosen = f"{bad.parent}:{tmp_path / 'good'}"
    with pytest.raises(NotImplementedError) as error:
        find("nvidia", [f"{stem}.so.13"], chosen=chosen)
    assert words in str(error.value)
    assert str(bad) in str(error.value)
    good = put(tmp_path / "good" / f"{stem}.so.13")
    assert find("nvidia", [f"{stem}.so.13"], chosen=chosen) == good


def test_a_link_to_nowhere_is_no_library(tmp_path: Path) -> None:
    stem = new_stem()
    (tmp_path / f"{stem}.so.13").symlink_to(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        find("nvidia", [f"{stem}.so.13"], chosen=str(tmp_path))


def test_a_file_of_another_version_inside_is_refused(tmp_path: Path) -> None:
    """A link without a version leads to whatever was installed last."""
    stem = new_stem()
    put(tmp_path / f"{stem}.so", f"{stem}.so.99")
    with pytest.raises(NotImplementedError, match=rf"is {stem}\.so\.99"):
        find("nvidia", [f"{stem}.so.13", f"{stem}.so.12"], chosen=str(tmp_path))
    good = put(tmp_path / "lib" / f"{stem}.so.12", f"{stem}.so.12")
    assert find("nvidia", [f"{stem}.so.13", f"{stem}.so.12"], chosen=str(tmp_path)) == good


def test_it_says_where_it_looked(tmp_path: Path) -> None:
    folder = tmp_path / "packages" / "torch" / "lib"
    folder.mkdir(parents=True)
    with pytest.raises(FileNotFoundError) as error:
        find("amd", ["libnone.so.7", "libnone.so.6"], **surroundings(tmp_path))
    for words in ["libnone.so.7, libnone.so.6", "the loader's path", str(folder), "TUNABLEOP_ROCM_PATH"]:
        assert words in str(error.value)


def test_caches_of_a_card_as_the_kernel_tells_them(tmp_path: Path) -> None:
    """The last level, over all its parts; of the card at that address only."""

    def write(path: Path, **properties: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{name} {value}\n" for name, value in properties.items()))

    cpu, first, second = (tmp_path / str(number) for number in range(3))
    write(cpu / "properties", cpu_cores_count=64, location_id=0, domain=0)
    write(cpu / "caches/0/properties", level=3, size=32768)
    for node, bus in [(first, 0xC1), (second, 0xC2)]:
        write(node / "properties", simd_count=1216, location_id=bus << 8, domain=1)
        for number in range(8):
            write(node / f"caches/{number}/properties", processor_id_low=number, level=2, size=4096)
    write(second / "caches/8/properties", level=3, size=262144)
    write(second / "caches/9/properties", level=1, size=16)
    read = native.kfd_cache_bytes
    assert read(str(tmp_path), "0001:c1:00.0") == 8 * 4096 * 1024
    assert read(str(tmp_path), "0001:c2:00.0") == 262144 * 1024
    assert read(str(tmp_path), "0000:c2:00.0") == 0
    assert read(str(tmp_path), "0001:c2:00.1") == 0
    assert read(str(tmp_path), "") == 0
    assert read(str(tmp_path / "none"), "0001:c1:00.0") == 0


def test_versions() -> None:
    assert native.vendor_version_text("nvidia", 13000) == "13.0"
    assert native.vendor_version_text("nvidia", 12080) == "12.8"
    assert native.vendor_version_text("nvidia", 11080) == "11.8"
    assert native.vendor_version_text("amd", 71526015) == "7.15"
    assert native.vendor_version_text("amd", 60342133) == "6.3"
