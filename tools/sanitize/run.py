"""Builds the native code with sanitizers and runs tests on it; any report about it is a failure.

    python tools/sanitize/run.py [asan] [tsan] [--rooms] [--build | --no-build] [-- ARGUMENTS OF PYTEST]

`asan`: AddressSanitizer and UndefinedBehaviorSanitizer; `tsan`: ThreadSanitizer; both when none is named.
`--rooms`: only the rooms below the provider, and of their tests those where memory is handled most. Each
has a build of its own, in build/asan and build/tsan, with a copy of the package, and has to report mistakes
made on purpose before it is believed. Python and ONNX Runtime are not instrumented: reports that have no
line of this project in them are counted, not judged. The CPU kernels are not instrumented either
(ep/backends/CMakeLists.txt says why). Needs g++, and the packages of the extras `lint` and `test`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
#: A frame of this project, or a line of its sources that UBSan reports without a stack.
OURS = re.compile(
    r"libonnxruntime_providers_tunableop|_core\.cpython|tunableop_native_tests"
    r"|^\S*/(ep|tests/native)/\S+:\d+:\d+: runtime error"
    # where the runtime knows the line, it says nothing of the library
    rf"|^ +#\d+ .* {re.escape(str(ROOT))}/(ep|tests/native)/\S+:\d+",
    re.MULTILINE,
)
#: A frame that acts for whoever called it.
RUNTIME = re.compile(r"\(lib[atu]san\.so|\(libubsan\.so|\(libstdc\+\+|\(libc\.so|\(ld-linux|\(libm\.so")
#: Begins the stack of one of the accesses that race.
ACCESS = re.compile(r"^ +(Previous )?(atomic )?(read|write) of size", re.IGNORECASE)
#: Where a report begins.
REPORT = re.compile(
    r"^(?===\d+==ERROR: AddressSanitizer|WARNING: ThreadSanitizer|\S+:\d+:\d+: runtime error)", re.MULTILINE
)


@dataclass(frozen=True)
class Kind:
    """One build and how it is run."""

    name: str
    sanitizers: str  # as CMake's TUNABLEOP_SANITIZE
    flags: str
    runtime: str
    options: dict[str, str]
    tests: tuple[str, ...]
    mistakes: tuple[str, ...]  # functions of tests/native/module/bind_mistakes.cc


TESTS = (
    "tests/native",
    "tests/test_concurrency.py",
    "tests/test_lifecycle.py",
    "tests/test_background.py",
    "tests/test_modes.py",
    "tests/test_profiler.py",
    "tests/test_stale_choices.py",
    "tests/test_stock_choice.py",
)
#: With --rooms: where memory is taken, given back and shared by hand.
ROOMS = (
    "tests/native/test_session_cache.py",
    "tests/native/test_crash_journal.py",
    "tests/native/test_cache.py",
    "tests/native/test_cache_files.py",
    "tests/native/test_cache_knowledge.py",
    "tests/native/test_tuner.py",
    "tests/native/test_tuner_hazards.py",
    "tests/native/test_external.py",
)
KINDS = (
    Kind(
        "asan",
        "address;undefined",
        "-fsanitize-recover=all",
        "libasan.so",
        {
            # Python never frees all it has, and ends without leaks that matter here.
            "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:allocator_may_return_null=1:handle_segv=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        TESTS,
        ("read_past_the_end", "read_after_free", "overflow_int"),
    ),
    Kind(
        "tsan",
        "thread",
        "",
        "libtsan.so",
        {"TSAN_OPTIONS": "halt_on_error=0:exitcode=0:die_after_fork=0:history_size=7:handle_segv=0"},
        TESTS,
        ("race",),
    ),
)


def build(kind: Kind, rooms: bool) -> Path:
    """Compiles the project and lays out the package; the folder of the build.

    `rooms`: only what tests/native needs; there is no package then.
    """
    folder = ROOT / "build" / kind.name
    python = [sys.executable, "-m", "pybind11", "--cmakedir"]
    pybind = subprocess.run(python, check=True, capture_output=True, text=True).stdout.strip()
    configure = [str(BIN / "cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-Dpybind11_DIR={pybind}", "-DSKBUILD_PROJECT_VERSION=0.0.0"]
    # Compiling takes longest. The rooms' tests spend little time in them: -O0 compiles thrice as fast as
    # -O1, and every access of the source is there to be looked at.
    optimise = "-O0" if rooms else "-O1"
    configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DCMAKE_CXX_FLAGS_RELWITHDEBINFO={optimise}"]
    # pybind11 would link its modules with LTO; a launcher that caches stalls on such builds.
    configure += ["-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF", "-DCMAKE_CXX_COMPILER_LAUNCHER="]
    # g++ takes sources that are compiled together for headers, where nameless types would be a mistake.
    configure += [f"-DCMAKE_CXX_FLAGS={kind.flags} -Wno-subobject-linkage"]
    configure += ["-DTUNABLEOP_BUILD_TESTS=ON", f"-DTUNABLEOP_TESTS_DIR={folder / 'tests'}"]
    configure += [f"-DTUNABLEOP_SANITIZE={kind.sanitizers}"]
    make = [str(BIN / "cmake"), "--build", str(folder)]
    make += ["--target", "tunableop_native_tests"] if rooms else []
    # Eight files of a room at once, so that headers are read once. Where two of them have the same name
    # for different things, one by one: what is wrong with the sources then still fails.
    for together in ("ON", "OFF"):
        unity = [f"-DCMAKE_UNITY_BUILD={together}", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=8"]
        subprocess.run([*configure, *unity], check=True, stdout=subprocess.DEVNULL)
        if subprocess.run(make, check=together == "OFF").returncode == 0:
            break
        print(f"{kind.name}: again, file by file", flush=True)
    if rooms:
        return folder
    package = folder / "package"
    shutil.rmtree(package, ignore_errors=True)
    install = [str(BIN / "cmake"), "--install", str(folder), "--prefix", str(package)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    name = "onnxruntime_ep_tunableop"
    shutil.copytree(ROOT / "python" / name, package / name, dirs_exist_ok=True)
    return folder


def library(name: str) -> str:
    """Path of a library of the compiler."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not Path(path).is_absolute():
        raise FileNotFoundError(f"the compiler has no {name}: install its sanitizers")
    return path


def environment(kind: Kind, folder: Path, reports: Path) -> dict[str, str]:
    """What pytest and all that it starts run with."""
    values = dict(os.environ)
    for variable, options in kind.options.items():
        parts = [options, f"log_path={reports / 'report'}"]
        supp = HERE / f"{variable.split('_')[0].lower()}.supp"
        if supp.is_file():
            parts.append(f"suppressions={supp}")
        values[variable] = ":".join(parts)
    paths = [str(folder / "package"), str(folder / "tests"), values.get("PYTHONPATH", "")]
    if "undefined" in kind.sanitizers:
        paths.insert(0, str(HERE / "site"))
        values["TUNABLEOP_UBSAN_RUNTIME"] = library("libubsan.so")
        values["TUNABLEOP_UBSAN_REPORTS"] = str(reports / "report-ubsan")
    values["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    values["TUNABLEOP_TESTS_DIR"] = str(folder / "tests")
    values["TUNABLEOP_SANITIZED"] = kind.name
    # The runtime must come first; libstdc++ at once with it, or exceptions are not seen.
    values["LD_PRELOAD"] = f"{library(kind.runtime)} {library('libstdc++.so')}"
    return values


def is_ours(report: str) -> bool:
    """Whether this project is at fault as far as a sanitizer can know.

    A race is one between two accesses of this project. Where one is ONNX Runtime's or the loader's, what
    orders the two is in code that is not instrumented, and so is not known.
    """
    accesses = [part for part in report.split("\n\n") if any(map(ACCESS.match, part.splitlines()))]
    if "data race" not in report.splitlines()[0] or not accesses:
        return OURS.search(report) is not None

    def innermost(stack: str) -> str:
        frames = [line for line in stack.splitlines() if re.match(r" +#\d+ ", line)]
        return next((frame for frame in frames if not RUNTIME.search(frame)), "")

    return all(OURS.search(innermost(stack)) for stack in accesses)


def read(reports: Path) -> tuple[list[str], int]:
    """The reports about this project, each kind of them once, and how many there are about others."""
    ours: dict[str, str] = {}
    elsewhere = 0
    for path in sorted(reports.glob("report*")):
        for text in REPORT.split(path.read_text(encoding="utf-8", errors="replace")):
            if not REPORT.match(text):
                continue
            if is_ours(text):
                ours.setdefault(re.sub(r"0x[0-9a-f]+|\d+", "", text.split("#1 ")[0]), text)
            else:
                elsewhere += 1
    return list(ours.values()), elsewhere


def judge(kind: Kind, reports: Path) -> bool:
    """Whether no report is about this project; prints those that are."""
    ours, elsewhere = read(reports)
    for text in ours:
        print(text)
    print(f"{kind.name}: {len(ours)} different reports about this project, {elsewhere} about others")
    return not ours


def command(*arguments: str) -> list[str]:
    """Python at addresses as the runtime of a sanitizer expects them."""
    return ["setarch", "--addr-no-randomize", sys.executable, *arguments]


def sees(kind: Kind, folder: Path, mistake: str) -> bool:
    """Whether a mistake made on purpose is reported; says so when it is not."""
    reports = empty(folder / f"reports-{mistake}")
    script = f"import tunableop_native_tests as tests; tests.{mistake}()"
    env = environment(kind, folder, reports)
    done = subprocess.run(command("-c", script), cwd=ROOT, env=env, check=False)
    seen = done.returncode == 0 and len(read(reports)[0]) == 1
    if not seen:
        print(f"{kind.name}: {mistake}() was not reported, see {reports}: nothing it says can be believed")
    return seen


def empty(folder: Path) -> Path:
    """That folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def check(kind: Kind, arguments: list[str], compiling: bool, rooms: bool) -> bool:
    """Builds, runs and judges."""
    start = time.monotonic()
    folder = build(kind, rooms) if compiling else ROOT / "build" / kind.name
    built = time.monotonic()
    print(f"{kind.name}: built in {built - start:.0f} s", flush=True)
    if not all(sees(kind, folder, mistake) for mistake in kind.mistakes):
        return False
    reports = empty(folder / "reports")
    tests = command("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow")
    tests += arguments or (ROOMS if rooms else kind.tests)
    done = subprocess.run(tests, cwd=ROOT, env=environment(kind, folder, reports), check=False)
    clean = judge(kind, reports)
    print(f"{kind.name}: tests in {time.monotonic() - built:.0f} s", flush=True)
    return clean and done.returncode == 0


def main() -> int:
    """Command line; 0 when all is clean."""
    own, found, rest = sys.argv[1:], "--" in sys.argv, []
    if found:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [kind.name for kind in KINDS]
    parser.add_argument("kinds", nargs="*", metavar="asan|tsan", help="both, if none is named")
    parser.add_argument("--rooms", action="store_true", help="only the rooms below the provider")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--build", action="store_true", help="build, and run nothing")
    parts.add_argument("--no-build", action="store_true", help="run on what was built before")
    args = parser.parse_args(own)
    if not set(args.kinds) <= set(names):
        parser.error(f"expected {' or '.join(names)}, found {' '.join(args.kinds)}")
    chosen = [kind for kind in KINDS if not args.kinds or kind.name in args.kinds]
    if args.build:
        for kind in chosen:
            build(kind, args.rooms)
        return 0
    results = [check(kind, rest, not args.no_build, args.rooms) for kind in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
