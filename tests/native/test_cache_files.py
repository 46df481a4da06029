"""Results files: merging, atomic replacement, and what happens when the system says no."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tunableop_native_tests as native
from tuning_helpers import FINGERPRINT, OTHER_MACHINE, document, make_record

WHOLE = json.dumps(document(make_record()))


def save(path: Path, *records: dict[str, Any], fingerprint: dict[str, Any] | None = None) -> None:
    native.save_file(path, list(records), fingerprint or FINGERPRINT)


def load(path: Path, fingerprint: dict[str, Any] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    return native.load_file(path, fingerprint or FINGERPRINT)


def sizes(path: Path, fingerprint: dict[str, Any] | None = None) -> list[int]:
    records, problems = load(path, fingerprint)
    assert problems == [] or fingerprint is not None or all("another machine" in p for p in problems)
    return sorted(record["m"] for record in records)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")


def test_save_and_merge(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1), make_record(m=2, tried=1, measured_at=5))
    save(path, make_record(m=2, tried=2, measured_at=9), make_record(m=3))
    assert sizes(path) == [1, 2, 3]
    save(path, make_record(m=2, tried=3, measured_at=7))
    assert {record["m"]: record["tried"] for record in load(path)[0]} == {1: 5, 2: 2, 3: 5}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", "results.json.lock"]


def test_other_machines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    foreign = {"fingerprint": OTHER_MACHINE, "entries": [make_record(), {"from": "the future", "x": 1e999}]}
    content = {"schema": 1, "producer": "x", "machines": [foreign]}
    path.write_text(json.dumps(content).replace("Infinity", "1e999"))
    save(path, make_record(m=1))
    save(path, make_record(m=2))
    assert sizes(path) == [1, 2]
    assert sizes(path, OTHER_MACHINE) == [128]
    assert "the future" in path.read_text()
    assert "1e999" in path.read_text()


@pytest.mark.parametrize("content", ["garbage", WHOLE[:100], '{"schema": 3, "machines": []}', "[1]"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    for turn, name in enumerate(["results.json.bad", "results.json.bad.2", "results.json.bad.3"]):
        path.write_text(content + " " * turn)
        save(path, make_record(m=turn + 1))
        assert sizes(path) == [turn + 1]
        assert (tmp_path / name).read_text() == content + " " * turn


def test_a_file_with_a_bad_entry_is_set_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document(make_record(m=1), {"m": "abc"})))
    save(path, make_record(m=2))
    save(path, make_record(m=3))
    assert sizes(path) == [1, 2, 3]
    assert "abc" in (tmp_path / "results.json.bad").read_text()
    assert not (tmp_path / "results.json.bad.2").exists()


def test_an_empty_file_is_just_filled(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.touch()
    save(path, make_record(m=1))
    assert sizes(path) == [1]
    assert not (tmp_path / "results.json.bad").exists()


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    path.chmod(0o640)
    save(path, make_record(m=2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("relative", [False, True])
def test_a_symbolic_link_stays(tmp_path: Path, dangling: bool, relative: bool) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "target.json"
    if not dangling:
        save(target, make_record(m=1))
    link = tmp_path / "link.json"
    link.symlink_to("real/target.json" if relative else target)
    save(link, make_record(m=2))
    assert link.is_symlink()
    assert sizes(target) == ([2] if dangling else [1, 2])
    assert (tmp_path / "real" / "target.json.lock").exists()


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="cannot follow the link"):
        save(tmp_path / "a", make_record())


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("results.json"), make_record(m=1))
    assert sizes(tmp_path / "results.json") == [1]


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none/results\.json.*No such file"):
        save(tmp_path / "none" / "results.json", make_record())


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"results\.json: cannot read: Is a directory"):
        save(path, make_record())
    found, problems = load(path)
    assert found == []
    assert "Is a directory" in problems[0]


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    os.mkfifo(path)
    assert "not a regular file" in load(path)[1][0]
    with pytest.raises(OSError, match="not a regular file"):
        save(path, make_record())


def as_somebody(path: Path, action: str) -> str:
    """Runs save or load as a user without rights, where root would have them all; what it said."""
    code = f"""
        import json, os, sys
        import tunableop_native_tests as native
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from tuning_helpers import FINGERPRINT, make_record
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            if {action!r} == "save":
                native.save_file({str(path)!r}, [make_record(m=1)], FINGERPRINT)
            else:
                print(native.load_file({str(path)!r}, FINGERPRINT)[1])
        except OSError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def public_path(tmp_path: Path) -> Path:
    """A file in a folder that everybody may write to, if everybody can get there."""
    folder = tmp_path / "public"
    folder.mkdir()
    for parent in [folder, *folder.parents]:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(0o755)
    folder.chmod(0o777)
    return folder / "results.json"


def test_an_unreadable_file(public_path: Path) -> None:
    save(public_path, make_record(m=9))
    public_path.chmod(0)
    public_path.with_name("results.json.lock").chmod(0o666)
    assert "cannot open: Permission denied" in as_somebody(public_path, "load")
    assert "cannot open: Permission denied" in as_somebody(public_path, "save")
    public_path.chmod(0o600)
    assert sizes(public_path) == [9]


def test_an_unwritable_folder(public_path: Path) -> None:
    save(public_path, make_record(m=9))
    public_path.chmod(0o644)
    public_path.parent.chmod(0o555)
    assert "Permission denied" in as_somebody(public_path, "save")
    public_path.parent.chmod(0o755)
    assert sizes(public_path) == [9]


def test_an_unwritable_file(public_path: Path) -> None:
    save(public_path, make_record(m=9))
    public_path.chmod(0o444)
    public_path.with_name("results.json.lock").chmod(0o666)
    assert "cannot write: Permission denied" in as_somebody(public_path, "save")
    assert sizes(public_path) == [9]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk(tiny_disk: Path) -> None:
    path = tiny_disk / "results.json"
    save(path, make_record(m=1))
    with pytest.raises(OSError, match="No space left on device"):
        save(path, *[make_record(m=i + 2) for i in range(200)])
    assert sizes(path) == [1]
    assert sorted(p.name for p in tiny_disk.iterdir()) == ["results.json", "results.json.lock"]


def test_a_file_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    old_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, old_limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(path, *[make_record(m=i + 2) for i in range(200)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
        signal.signal(signal.SIGXFSZ, old_handler)
    assert sizes(path) == [1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", "results.json.lock"]


def test_killed_while_saving(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    code = f"""
        import itertools, sys
        import tunableop_native_tests as native
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from tuning_helpers import FINGERPRINT, make_record
        print("ready", flush=True)
        for turn in itertools.count(2):
            native.save_file({str(path)!r}, [make_record(m=turn)], FINGERPRINT)
    """
    size = 1
    for turn in range(15):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.003 * turn)
        process.kill()
        process.wait()
        process.stdout.close()
        found = sizes(path)
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= size
        size = len(found)
    # What a killed process left behind goes with the next save.
    (tmp_path / ".results.json.tmp.1.1").write_text("half a fi")
    save(path, make_record(m=1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", "results.json.lock"]


def _save_many(path: Path, first: int, count: int) -> None:
    for i in range(first, first + count):
        save(path, make_record(m=i))


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_save_many, args=(path, 1 + 25 * i, 25)) for i in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        if path.exists():
            sizes(path)  # whole at every moment
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sizes(path) == list(range(1, 101))


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    context = multiprocessing.get_context("spawn")
    with (tmp_path / "results.json.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = context.Process(target=_save_many, args=(path, 2, 1))
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        assert sizes(path) == [1]
    worker.join()
    assert worker.exitcode == 0
    assert sizes(path) == [1, 2]


def test_a_child_forked_during_a_save_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = f"""
        import os, signal, sys, threading, time, warnings
        import tunableop_native_tests as native
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from tuning_helpers import FINGERPRINT, make_record
        warnings.simplefilter("ignore")
        path = {str(tmp_path / "results.json")!r}
        many = [make_record(m=m) for m in range(1, 8001)]
        thread = threading.Thread(target=lambda: native.save_file(path, many, FINGERPRINT))
        thread.start()
        children = []
        while thread.is_alive():
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
            time.sleep(0.01)
        thread.join()
        begin = time.monotonic()
        native.save_file(path, [make_record(m=1)], FINGERPRINT)
        print(time.monotonic() - begin)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 15
