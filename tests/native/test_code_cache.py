"""Compiled kernels on disk: the next process reads them, and nothing wrong with a file or folder hurts."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

from support.built import FOLDER
from support.cards import BOTH, backend, count, environment, flavour, on_card
from support.rtc import SOURCE, card, library, native, scaled, scratch


@on_card(*BOTH)
def test_the_next_process_reads_what_one_compiled() -> None:
    with scratch() as folder:
        device = card()
        first = library(folder / "new" / "er", device)
        scaled(first.get("sim", "f32", "", "scale"), device)
        (kept,) = (folder / "new" / "er").iterdir()
        arch = "sm_90" if backend() == "cuda" else "gfx942"
        assert re.fullmatch(rf"sim-f32-{arch}-[0-9a-f]{{32}}\.code", kept.name)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o644
        second = library(folder / "new" / "er", device)
        scaled(second.get("sim", "f32", "", "scale"), device)
        assert count("compiles") == 1
        assert second.lines[0][1].startswith(f"read sim f32 for {arch} in ")
        second.get("sim", "f64", "", "scale")
        assert len(list((folder / "new" / "er").iterdir())) == 2


@on_card(*BOTH)
def test_a_damaged_file_is_compiled_anew() -> None:
    with scratch() as folder:
        device = card()
        library(folder, device).get("sim", "f32", "", "scale")
        (kept,) = folder.iterdir()
        good = kept.read_bytes()
        damages = {
            "empty": b"",
            "half a header": good[:20],
            "no code": good[:56],
            "cut": good[:-1],
            "longer": good + b"x",
            "other magic": b"X" + good[1:],
            "other digest": good[:16] + bytes(16) + good[32:],
            "one bit": good[:70] + bytes([good[70] ^ 1]) + good[71:],
        }
        for name, damaged in damages.items():
            kept.write_bytes(damaged)
            before = count("compiles")
            scaled(library(folder, device).get("sim", "f32", "", "scale"), device)
            assert count("compiles") == before + 1, name
            assert kept.read_bytes() == good, name
        assert list(folder.iterdir()) == [kept]


@on_card(*BOTH)
def test_whole_code_that_the_driver_refuses_is_compiled_anew() -> None:
    """As after the driver became older, or where somebody else's code has the same name."""
    with scratch() as folder:
        device = card()
        kernels = library(folder, device)
        kernels.get("sim", "f32", "", "scale")
        (kept,) = folder.iterdir()
        compiler = native.Compiler(device)
        texts = [compiler.identity, *compiler.options(["TUNABLEOP_T0=f32"]), SOURCE]
        assert native.code_digest(texts) in kept.name
        native.CodeCache(str(folder)).write(kept.name.rsplit("-", 1)[0], texts, b"whole, and no code")
        scaled(library(folder, device).get("sim", "f32", "", "scale"), device)
        assert count("compiles") == 3 - 1
        assert b"whole" not in kept.read_bytes()


@on_card("cuda13")
def test_what_the_code_depends_on_is_in_the_name() -> None:
    texts = ["nvrtc 13.0", "--gpu-architecture=sm_90", SOURCE]
    digests = {
        native.code_digest(texts),
        native.code_digest(["nvrtc 13.1", *texts[1:]]),
        native.code_digest([texts[0], "--gpu-architecture=sm_80", SOURCE]),
        native.code_digest([*texts[:2], SOURCE + " "]),
        native.code_digest([texts[0] + texts[1], SOURCE]),
        native.code_digest([*texts, ""]),
        native.code_digest(texts[::-1]),
    }
    assert len(digests) == 7
    with scratch() as folder:
        cache = native.CodeCache(str(folder))
        assert cache.read("x", texts) is None
        cache.write("x", texts, b"code")
        assert cache.read("x", texts) == b"code"
        assert cache.read("x", texts[:2]) is None
        assert cache.read("y", texts) is None
        (kept,) = folder.iterdir()
        kept.unlink()
        os.mkfifo(kept)  # nothing that is no file is waited for
        assert cache.read("x", texts) is None


@on_card("cuda13")
def test_what_a_killed_process_left_goes() -> None:
    with scratch() as folder:
        cache = native.CodeCache(str(folder))
        cache.write("x", ["text"], b"code")
        (kept,) = folder.iterdir()
        old, new, other = (
            folder / name for name in (f"{kept.name}.AbCdEf", f"{kept.name}.ghIjkl", "y.code.AbCdEf")
        )
        for path in (old, new, other):
            path.write_bytes(b"half")
        for path in (old, other):
            os.utime(path, (1e9, 1e9))
        cache.write("x", ["text"], b"code")
        assert set(folder.iterdir()) == {kept, new, other}
        assert cache.read("x", ["text"]) == b"code"


def unwritable(folder: Path) -> Path:
    """A folder that even root cannot write into: there is a file in its place."""
    (folder / "file").write_text("")
    return folder / "file" / "kernels"


@on_card(*BOTH)
def test_a_folder_that_cannot_be_written_costs_one_warning() -> None:
    with scratch() as folder:
        device = card()
        kernels = library(unwritable(folder), device)
        for type_name in ("f32", "f64", "i64"):
            kernels.get("sim", type_name, "", "scale")
        (warning,) = (line for warning, line in kernels.lines if warning)
        assert warning.startswith("compiled kernels cannot be kept, so each process compiles its own: ")
        assert str(folder) in warning
        assert "TUNABLEOP_KERNEL_CACHE" in warning


@on_card(*BOTH)
def test_a_folder_that_can_only_be_read_is_read() -> None:
    """As root, who can write everywhere, it is a full disk that refuses: /dev/full in the file's place."""
    with scratch() as folder:
        device = card()
        library(folder, device).get("sim", "f32", "", "scale")
        (kept,) = folder.iterdir()
        folder.chmod(0o500)
        kernels = library(folder, device)
        kernels.get("sim", "f32", "", "scale")
        assert count("compiles") == 1
        kernels.get("sim", "f64", "", "scale")
        if os.geteuid() != 0:
            assert [warning for warning, _ in kernels.lines].count(True) == 1
            assert list(folder.iterdir()) == [kept]
        folder.chmod(0o700)


@on_card(*BOTH)
def test_processes_that_compile_at_once_leave_one_whole_file() -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from support import rtc as t\n"
        "device = t.card()\n"
        "sys.stdin.read()\n"
        "for _ in range(20):\n"
        "    kernels = t.library(sys.argv[1], device)\n"
        "    t.scaled(kernels.get('sim', 'f32', '', 'scale'), device)\n"
        "    for path in Path(sys.argv[1]).glob('*.code'): path.unlink(missing_ok=True)\n"
        "t.scaled(t.library(sys.argv[1], device).get('sim', 'f32', '', 'scale'), device)\n"
        "assert not any(warning for warning, _ in kernels.lines)\n"
    )
    with scratch() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, env=environment(flavour())
            )
            for _ in range(3)
        ]
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
        assert [process.wait(100) for process in started] == [0, 0, 0]
        assert all(path.suffix == ".code" for path in folder.iterdir())
        device = card()
        library(folder, device).get("sim", "f32", "", "scale")
        assert len(list(folder.iterdir())) == 1
        before = count("compiles")
        library(folder, device).get("sim", "f32", "", "scale")
        assert count("compiles") == before


@on_card("cuda13")
def test_no_folder_at_all_is_told_when_something_was_compiled() -> None:
    kernels = library("", why_no_folder="HOME is not set")
    kernels.available()
    assert kernels.lines == []
    kernels.get("sim", "f32", "", "scale")
    kernels.get("sim", "f64", "", "scale")
    (warning,) = (line for warning, line in kernels.lines if warning)
    assert "HOME is not set (TUNABLEOP_KERNEL_CACHE names another folder, or off)" in warning


def cache_folder(**variables: str) -> str:
    """What a process with these variables, and no others of their kind, finds."""
    names = ("TUNABLEOP_KERNEL_CACHE", "XDG_CACHE_HOME", "HOME")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    script = f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\nimport tunableop_native_tests as native\n"
    script += "try: print(native.code_cache_folder())\nexcept Exception as error: print('error:', error)\n"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=clean | variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_where_the_code_cache_is() -> None:
    ours = "onnxruntime-ep-tunableop/kernels"
    assert cache_folder(TUNABLEOP_KERNEL_CACHE="/k", XDG_CACHE_HOME="/x", HOME="/h") == "/k"
    assert cache_folder(TUNABLEOP_KERNEL_CACHE="off", HOME="/h") == ""
    assert cache_folder(TUNABLEOP_KERNEL_CACHE="", XDG_CACHE_HOME="/x", HOME="/h") == f"/x/{ours}"
    assert cache_folder(XDG_CACHE_HOME="relative", HOME="/h") == f"/h/.cache/{ours}"
    assert cache_folder(HOME="/h") == f"/h/.cache/{ours}"
    none = cache_folder()
    assert none.startswith("error:")
    assert "TUNABLEOP_KERNEL_CACHE" in none
