"""The file that names the kernel which is being tried, and who reads it when its process died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tunableop_native_tests as native
from onnxruntime_ep_tunableop._core import last_call, watch_journal

KERNELS = ["avx512:6x64/kc384/rows", "avx512:8x48/kc384/none", "avx2:6x16/kc256/rows"]

PREAMBLE = """
import ctypes, os, signal, sys, threading, time
import tunableop_native_tests as native
from onnxruntime_ep_tunableop._core import watch_journal

cache = sys.argv[1]
problem = native.Problem()
problem.m, problem.n, problem.k = 128, 1536, 384
candidates = [native.Candidate("native", name) for name in %r]
journal = native.CrashJournal(cache)
journal.begin(problem, candidates)

def tell(text):
    print(text, flush=True)
""" % (KERNELS,)  # noqa: UP031 - the script is full of braces


def start(script: str, cache: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), str(cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def run(script: str, cache: Path) -> int:
    process = start(script, cache)
    process.communicate(timeout=60)
    return process.returncode


def journals(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".trying." in path.name)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "model.tune.json"


def problem() -> Any:
    made = native.Problem()
    made.m, made.n, made.k = 128, 1536, 384
    return made


def candidates(*names: str, library: str = "native") -> list[Any]:
    return [native.Candidate(library, name) for name in names or KERNELS]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.abort()", -signal.SIGABRT),
        ("ctypes.CDLL(None).exit(3)", 3),
        ("os._exit(4)", 4),
    ],
)
@pytest.mark.parametrize("index", [0, 2])
def test_death_in_a_call(cache: Path, end: str, code: int, index: int) -> None:
    calls = f"journal.enter(1); journal.leave(); journal.enter({index}); {end}"
    assert run(calls, cache) == code
    told = {"library": "native", "kernel": KERNELS[index], "problem": "M=128,N=1536,K=384,fp32"}
    pid = int(journals(cache.parent)[0].split(".")[-2])
    assert last_call(cache, pid) == told  # leaves the file
    assert last_call(cache, pid + 1) is None
    assert native.collect_deaths(cache) == [told | {"is_default": index == 0}]
    assert last_call(cache, pid) is None
    assert journals(cache.parent) == []
    assert native.collect_deaths(cache) == []


@pytest.mark.parametrize(
    "script",
    [
        "journal.enter(1); journal.leave(); ctypes.string_at(0)",
        "journal.enter(1); journal.leave(); os.kill(os.getpid(), signal.SIGKILL)",
        "journal.enter(1); journal.end(); os.abort()",
        "journal.enter(1); journal.begin(problem, candidates); os._exit(1)",
        "os._exit(0)",
        "journal.begin(problem, []); journal.enter(0); journal.enter(7); os.abort()",
    ],
)
def test_death_between_calls(cache: Path, script: str) -> None:
    run(script, cache)
    assert len(journals(cache.parent)) == 1
    assert native.collect_deaths(cache) == []
    assert journals(cache.parent) == []


def test_normal_end(cache: Path) -> None:
    script = "journal.enter(0); journal.leave(); journal.end(); print(os.listdir(os.path.dirname(cache)))"
    process = start(script, cache)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert f"model.tune.json.trying.{process.pid}.0" in output
    assert journals(cache.parent) == []


def test_exit_while_another_thread_measures(cache: Path) -> None:
    """A process that ends when it is done must not accuse what was running beside."""
    script = """
        def measure():
            journal.enter(1)
            tell("in")
            time.sleep(1000)
        threading.Thread(target=measure, daemon=True).start()
        sys.stdin.readline()
        ctypes.CDLL(None).exit(0)
    """
    process = start(script, cache)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    assert watch_journal(cache, process.pid)["in_call"]
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert len(journals(cache.parent)) == 1
    assert native.collect_deaths(cache) == []
    assert journals(cache.parent) == []


def test_the_living_are_left_alone(cache: Path) -> None:
    process = start("journal.enter(1); tell('in'); sys.stdin.readline(); os.abort()", cache)
    assert process.stdout is not None
    process.stdout.readline()
    own = native.CrashJournal(cache)
    before = journals(cache.parent)
    assert len(before) == 2
    assert native.collect_deaths(cache) == []
    assert journals(cache.parent) == before
    process.communicate("\n", timeout=60)
    assert [death["kernel"] for death in native.collect_deaths(cache)] == [KERNELS[1]]
    assert journals(cache.parent) == [f"model.tune.json.trying.{os.getpid()}.0"]
    del own
    assert journals(cache.parent) == []


def test_a_forked_child_holds_nothing(cache: Path) -> None:
    """Its life must not hide the parent's death, and its calls are its own."""
    script = """
        journal.enter(1)
        if os.fork() == 0:
            journal.enter(2)             # tells nobody: the memory is private now
            journal.begin(problem, candidates)
            journal.enter(2)
            tell("child")
            sys.stdin.readline()
            os.abort()
        time.sleep(0.01)
        os.abort()
    """
    process = start(script, cache)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.wait(timeout=60) == -signal.SIGABRT
    assert [death["kernel"] for death in native.collect_deaths(cache)] == [KERNELS[1]]
    assert len(journals(cache.parent)) == 1  # the child's own
    assert process.stdin is not None
    process.stdin.close()
    process.stdout.read()  # until the child is gone, too
    deaths: list[Any] = []
    while not deaths and journals(cache.parent):
        deaths = native.collect_deaths(cache)
    assert [death["kernel"] for death in deaths] == [KERNELS[2]]


def test_a_forked_child_that_ends_leaves_the_parents_file(cache: Path) -> None:
    script = """
        pid = os.fork()
        if pid == 0:
            del journal
            os._exit(0)  # onnxruntime's own exit handlers wait for threads that a fork does not copy
        os.waitpid(pid, 0)
        tell(str(len(os.listdir(os.path.dirname(cache)))))
        journal.enter(2)
        os.abort()
    """
    process = start(script, cache)
    output = process.communicate(timeout=60)[0]
    assert output == "1\n"
    assert [death["kernel"] for death in native.collect_deaths(cache)] == [KERNELS[2]]


def test_an_executed_child_holds_nothing(cache: Path) -> None:
    script = """
        import subprocess
        journal.enter(1)
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()"], close_fds=False)
        tell("started")
        os.abort()
    """
    process = start(script, cache)
    assert process.stdout is not None
    process.stdout.readline()
    process.wait(timeout=60)
    assert [death["kernel"] for death in native.collect_deaths(cache)] == [KERNELS[1]]
    process.communicate("\n", timeout=60)


# Damage


@pytest.fixture
def dead(cache: Path) -> Path:
    """A file that names a kernel."""
    run("journal.enter(2); os.abort()", cache)
    return cache.parent / journals(cache.parent)[0]


def test_truncated(cache: Path, dead: Path) -> None:
    whole = dead.read_bytes()
    assert len(whole) == 4096
    for size in (0, 1, 8, 100, 4095):
        dead.write_bytes(whole[:size])
        assert native.collect_deaths(cache) == []
        assert not dead.exists()
    dead.write_bytes(whole + b"more")  # what a later version may write behind
    assert len(native.collect_deaths(cache)) == 1


def test_random_bytes(cache: Path, dead: Path) -> None:
    whole = dead.read_bytes()
    noise = random.Random(5)
    for round_number in range(300):
        content = bytearray(whole if round_number % 2 else noise.randbytes(4096))
        if round_number % 4 == 2:
            content[:12] = whole[:12]  # behind the right magic and version
        for _ in range(noise.choice([1, 10, 1000])):
            content[noise.randrange(4096)] = noise.randrange(256)
        dead.write_bytes(content)
        for death in native.collect_deaths(cache):
            assert all(text.isprintable() and text.isascii() for text in (death["kernel"], death["problem"]))
        assert not dead.exists()


def test_another_boot(cache: Path, dead: Path) -> None:
    """What the disk has of a machine that went down says nothing of the kernel."""
    content = bytearray(dead.read_bytes())
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    at = content.index(boot)
    content[at : at + len(boot)] = b"0" * len(boot)
    dead.write_bytes(content)
    assert native.collect_deaths(cache) == []
    assert not dead.exists()


def test_what_is_no_journal_stays(cache: Path, dead: Path) -> None:
    folder = cache.parent
    target = folder / "target"
    dead.rename(target)
    (folder / "model.tune.json.trying.1.0").symlink_to(target)
    (folder / "model.tune.json.trying.2.0").symlink_to(folder / "nothing")
    (folder / "model.tune.json.trying.3.0").mkdir()
    os.mkfifo(folder / "model.tune.json.trying.4.0")
    for name in ("trying.notes", "trying.5", "trying.5.x", "trying.5.0.bak", "trying..0", "lock"):
        (folder / f"model.tune.json.{name}").write_bytes(target.read_bytes())
    (folder / "other.tune.json.trying.1.0").write_bytes(target.read_bytes())
    before = sorted(folder.iterdir())
    assert native.collect_deaths(cache) == []
    assert sorted(folder.iterdir()) == before


def test_names_that_do_not_fit(cache: Path) -> None:
    script = """
        long = native.Candidate("vendor", "k" * 3501)
        journal.begin(problem, [long] * 5000)
        journal.enter(4999)
        os.abort()
    """
    run(script, cache)
    (death,) = native.collect_deaths(cache)
    assert death["kernel"] == "k" * 3501
    run(script.replace("3501", "30000"), cache)
    (death,) = native.collect_deaths(cache)
    assert death["kernel"] == "k" * 3501


# When the system says no


def test_no_folder(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "model.tune.json"
    with pytest.raises(OSError, match="cannot create: No such file"):
        native.CrashJournal(nowhere)
    assert native.collect_deaths(nowhere) == []
    assert watch_journal(nowhere, 1) is None


@contextlib.contextmanager
def limited(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_room(cache: Path) -> None:
    """With SIGXFSZ at its default, as in programs other than Python: the limit's signal would kill."""
    old = signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        with limited(4095), pytest.raises(OSError, match="cannot allocate: File too large"):
            native.CrashJournal(cache)
    finally:
        signal.signal(signal.SIGXFSZ, old)
    assert journals(cache.parent) == []
    with limited(4096):
        native.CrashJournal(cache)


def test_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=16k tunableop {disk} || exit 77
        head -c 1M /dev/zero > {disk}/filler 2>/dev/null
        exec {sys.executable} -c '
        import sys
        import tunableop_native_tests as native
        try:
            native.CrashJournal("{disk}/cache")
        except OSError as error:
            print(error)
        '
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode not in (0, -signal.SIGBUS, 128 + signal.SIGBUS):
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0
    assert "cannot allocate: No space left on device" in done.stdout


def test_read_only_folder(cache: Path) -> None:
    """Nothing can be written, and a death that could not be removed would be told for ever."""
    script = """
        import pathlib
        os.chmod(os.path.dirname(cache), 0o555)
        if os.getuid() == 0:
            ctypes.CDLL(None).setegid(65534)
            ctypes.CDLL(None).seteuid(65534)
        try:
            native.CrashJournal(cache + ".other")
        except OSError as error:
            tell(str(error))
        tell(str(native.collect_deaths(cache)))
        os._exit(0)
    """
    run("journal.enter(1); os.abort()", cache)
    folder = cache.parent
    for parent in (folder, *folder.parents):  # pytest's folders are private
        if parent.stat().st_uid == os.getuid() and parent.name.startswith(("pytest", "test_")):
            parent.chmod(0o755)
    process = start(script, cache)
    output = process.communicate(timeout=60)[0].splitlines()
    folder.chmod(0o755)
    assert "cannot create: Permission denied" in output[0]
    assert output[1] == "[]"
    assert [death["kernel"] for death in native.collect_deaths(cache)] == [KERNELS[1]]


def test_no_locks(cache: Path) -> None:
    """The name is taken by a file that somebody holds: the next number."""
    taken = cache.parent / f"{cache.name}.trying.{os.getpid()}.0"
    with taken.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        journal = native.CrashJournal(cache)
        assert journals(cache.parent) == [taken.name, f"{cache.name}.trying.{os.getpid()}.1"]
        del journal
        assert journals(cache.parent) == [taken.name]
    taken.unlink()


# Many at once


def test_many_processes(cache: Path) -> None:
    """Every death is told once, whoever collects; nobody's file is taken from under him."""
    rounds = 25
    script = f"""
        told = []
        for i in range({rounds}):
            pid = os.fork()
            if pid == 0:
                mine = native.CrashJournal(cache)
                mine.begin(problem, [native.Candidate("native", f"{{os.getppid()}}/{{i}}")])
                if not watch_journal(cache, os.getpid()):
                    os._exit(9)
                mine.enter(0)
                os.kill(os.getpid(), signal.SIGKILL)
            told += [death["kernel"] for death in native.collect_deaths(cache)]
            status = os.waitpid(pid, 0)[1]
            if os.WIFEXITED(status):
                sys.exit("a living process lost its file")
        for name in told:
            tell(name)
    """
    processes = [start(script, cache) for _ in range(6)]
    told: list[str] = []
    for process in processes:
        told += process.communicate(timeout=120)[0].split()
        assert process.returncode == 0
    told += [death["kernel"] for death in native.collect_deaths(cache)]
    expected = [f"{process.pid}/{i}" for process in processes for i in range(rounds)]
    assert sorted(told) == sorted(expected)
    assert journals(cache.parent) == []


def test_sessions_of_one_process(cache: Path) -> None:
    several = [native.CrashJournal(cache) for _ in range(300)]
    assert len(journals(cache.parent)) == 300
    assert native.collect_deaths(cache) == []
    del several
    assert journals(cache.parent) == []


def test_a_link_leads_to_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to("real/model.json")
    run("journal.enter(1); os.abort()", link)
    assert journals(tmp_path) == []
    assert len(native.collect_deaths(tmp_path / "real" / "model.json")) == 1


# Watching


def test_watch(cache: Path) -> None:
    script = """
        for index in (0, 1, 1, 2):
            sys.stdin.readline()
            journal.enter(index)
            tell("in")
            sys.stdin.readline()
            journal.leave()
            tell("out")
        sys.stdin.readline()
    """
    process = start(script, cache)
    assert process.stdin is not None
    assert process.stdout is not None

    def step() -> Any:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        process.stdout.readline()  # type: ignore[union-attr]
        return watch_journal(cache, process.pid)

    for calls, index in enumerate((0, 1, 1, 2), 1):
        inside = step()
        assert (inside["in_call"], inside["calls"]) == (True, calls)
        assert (inside["library"], inside["kernel"]) == ("native", KERNELS[index])
        assert inside["problem"] == "M=128,N=1536,K=384,fp32"
        assert step() == {"in_call": False, "calls": calls, "library": "", "kernel": "", "problem": ""}
    assert watch_journal(cache, process.pid + 1) is None
    process.kill()
    process.wait()
    assert watch_journal(cache, process.pid) is None  # its file is there still


def test_watch_a_busy_process(cache: Path) -> None:
    """Names read while they change are whole, or none."""
    script = f"""
        import itertools
        names = {[letter * 1000 for letter in "abcdefgh"]!r}
        journal.begin(problem, [native.Candidate("native", name) for name in names])
        tell("go")
        for i in itertools.count():
            journal.enter(i % 8)
            journal.leave()
    """
    process = start(script, cache)
    assert process.stdout is not None
    process.stdout.readline()
    seen = [watch_journal(cache, process.pid) for _ in range(3000)]
    process.kill()
    process.communicate()
    counts = [entry["calls"] for entry in seen]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
    for entry in seen:
        kernel = entry["kernel"]
        assert not entry["in_call"] or (len(kernel) == 1000 and len(set(kernel)) == 1)


def write_ns(path: Path, calls: int) -> float:
    """Nanoseconds of a write to a file, Python included: what naming a kernel costs without a mapping."""
    with path.open("wb", buffering=0) as file:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            os.pwrite(file.fileno(), b"kernel", 0)
        return (time.perf_counter_ns() - begin) / calls


def test_naming_a_kernel_costs_less_than_writing_it(cache: Path, record_property: Any) -> None:
    journal = native.CrashJournal(cache)
    for count in (1, 2):
        named, written = [], []
        for _ in range(5):  # in turns
            named.append(native.measure_journal(journal, count, 20_000))
            written.append(write_ns(cache.with_suffix(".plain"), 20_000))
        record_property(f"enter_leave_ns_{count}", min(named))
        assert min(named) < min(written)
