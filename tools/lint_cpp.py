"""Checks the C++ sources: formatting (clang-format), defects (clang-tidy), names, the direction of the rooms.

    python tools/lint_cpp.py [--no-tidy] [--turns N]

With `--turns N` clang-tidy looks at an N-th of the files, another one with each commit, and says so.

Needs the packages of the extra `lint` and of the build; makes its own compile database in build/lint.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

#: So many files go to clang-tidy at once: it reads their headers once, and looks once at what they inline.
TOGETHER = 8
#: A defect that is only found where a file that another one includes is taken for a source, not a header.
PLANTED = "int Planted(int a) {\n  const int* p = a > 3 ? &a : nullptr;\n  return *p;\n}\n"

#: Which rooms a room may include from (docs/architecture.md: one direction).
MAY_INCLUDE = {
    "kernels": {"kernels"},
    "gemm": {"gemm"},
    "tuner": {"tuner", "gemm"},
    "cache": {"cache", "gemm"},
    "backends": {"backends", "abi", "gemm", "kernels"},
    "abi": {"abi"},
    "provider": {"provider", "abi", "backends", "cache", "tuner", "gemm", "kernels"},
    "bindings": {"bindings", "provider", "abi", "backends", "cache", "tuner", "gemm", "kernels"},
    # tests/native/module: no room, but nobody may know it.
    "module": {"module", "bindings", "provider", "backends", "cache", "tuner", "gemm", "kernels"},
    # tests/native/device_kernels: another one.
    "device_kernels": {"device_kernels", "kernels"},
    # tests/gpu_sim: its compilers make code of the kernels, and it knows nothing else of the project.
    "core": {"core", "kernels"},
    "cuda": {"cuda", "core"},
    "hip": {"hip", "core"},
    # tests/native/faulty: a library as any user may write.
    "faulty": {"backends"},
    # tests/native/other_gpu: another provider, which knows ONNX Runtime only.
    "other_gpu": {"abi"},
}


def sources(*suffixes: str) -> list[Path]:
    """Tracked files below ep/ and tests/ with these endings."""
    command = ["git", "ls-files", "ep", "tests"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / line for line in listed.stdout.splitlines() if line.endswith(suffixes)]


def check_format(files: list[Path]) -> bool:
    """Whether clang-format would leave every file as it is."""
    command = [str(BIN / "clang-format"), "--dry-run", "--Werror", *map(str, files)]
    return subprocess.run(command, check=False).returncode == 0


def check_rooms(files: list[Path]) -> bool:
    """Whether every include points the right way."""
    good = True
    for path in files:
        parts = path.relative_to(ROOT).parts
        room = parts[1] if parts[0] == "ep" else parts[-2]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = re.match(r'#include "(\w+)/', line)
            if match and match.group(1) in MAY_INCLUDE and match.group(1) not in MAY_INCLUDE[room]:
                print(f"{path.relative_to(ROOT)}:{number}: '{room}' must not know '{match.group(1)}'")
                good = False
    return good


def check_names(files: list[Path]) -> bool:
    """Whether every name that a source takes from a namespace, or gives one, is used in it.

    What misc-unused-using-decls and misc-unused-alias-decls see only in a file that nothing includes.
    """
    good = True
    for path in files:
        text = path.read_text(encoding="utf-8")
        text = re.sub(
            r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL
        )
        for match in re.finditer(r"\busing\s+[\w:]+::(\w+)\s*;|\bnamespace\s+(\w+)\s*=[^;]*;", text):
            name = match.group(1) or match.group(2)
            if not re.search(rf"\b{name}\b", text[: match.start()] + text[match.end() :]):
                line = text.count("\n", 0, match.start()) + 1
                print(f"{path.relative_to(ROOT)}:{line}: '{name}' is used nowhere")
                good = False
    return good


def compile_database() -> Path:
    """Configures a build folder (nothing is compiled but the generated headers) and returns it."""
    folder = ROOT / "build" / "lint"
    pybind = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    configure = [str(BIN / "cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-Dpybind11_DIR={pybind}", "-DSKBUILD_PROJECT_VERSION=0", "-DTUNABLEOP_BUILD_TESTS=ON"]
    configure += ["-DCMAKE_UNITY_BUILD=OFF"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    target = [str(BIN / "cmake"), "--build", str(folder), "--target", "tunableop_abi_headers"]
    subprocess.run(target, check=True, stdout=subprocess.DEVNULL)
    return folder


def groups(files: list[Path], database: Path) -> list[list[Path]]:
    """The files, those together that are of one room and compiled in the same way."""
    commands: dict[Path, str] = {}
    for entry in json.loads((database / "compile_commands.json").read_text(encoding="utf-8")):
        path = Path(entry["file"])
        plain = entry["command"].replace(entry["file"], "")
        commands.setdefault(path, re.sub(r"-o \S+|-D\w+_EXPORTS", "", plain))
    alike: dict[tuple[str, ...], list[Path]] = {}
    for path in files:
        # What is not built here is like its neighbours, as far as clang-tidy knows.
        key = commands[path] if path in commands else str(path)
        alike.setdefault((*path.relative_to(ROOT).parts[:2], key), []).append(path)
    return [same[i : i + TOGETHER] for same in alike.values() for i in range(0, len(same), TOGETHER)]


def unify(several: list[list[Path]], database: Path) -> list[Path]:
    """One source for each group, which includes its files, and a compile database of them.

    clang's analyzer looks at included files only if "UnifiedSource" is in the name of the one that includes.
    """
    folder = database / "together"
    folder.mkdir(exist_ok=True)
    known = json.loads((database / "compile_commands.json").read_text(encoding="utf-8"))
    commands = {entry["file"]: entry for entry in reversed(known)}
    sources, entries = [], []
    for number, group in enumerate(several):
        source = folder / f"UnifiedSource_{number}.cc"
        allowed = "// NOLINTNEXTLINE(bugprone-suspicious-include)"
        source.write_text("".join(f'{allowed}\n#include "{path}"\n' for path in group), encoding="utf-8")
        entry = commands[str(group[0])]
        command = re.sub(r"-o \S+", "", entry["command"]).replace(entry["file"], str(source))
        entries.append({"directory": entry["directory"], "file": str(source), "command": command})
        sources.append(source)
    (folder / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    return sources


def tidy(source: Path, database: Path) -> tuple[int, str]:
    """clang-tidy's return code, and what it says."""
    command = [str(BIN / "clang-tidy"), "--quiet", "-p", str(database), str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + (done.stderr if done.returncode != 0 else "")


def turn_of(several: list[list[Path]], turns: int) -> list[list[Path]]:
    """The groups whose turn it is; the commit's number says which."""
    if turns <= 1:
        return several
    command = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    turn = int(head, 16) % turns
    chosen = [group for number, group in enumerate(several) if number % turns == turn]
    count = sum(map(len, chosen))
    print(f"clang-tidy: turn {turn + 1} of {turns}, {count} of {sum(map(len, several))} files")
    return chosen


def check_tidy(files: list[Path], turns: int) -> bool:
    """Whether clang-tidy finds nothing in any file whose turn it is."""
    database = compile_database()
    planted = database / "together" / "tests" / "planted.cc"
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(PLANTED, encoding="utf-8")
    several = turn_of(groups(files, database), turns)
    together = [group for group in several if len(group) > 1]
    alone = [group[0] for group in several if len(group) == 1]
    # The planted file is compiled as the first of the project's.
    sources = unify([*together, [together[0][0], planted]], database)
    jobs: list[tuple[list[Path], Path, Path]] = [
        (group, source, source.parent) for group, source in zip([*together, [planted]], sources, strict=True)
    ]
    jobs += [([path], path, database) for path in alone]

    def one(job: tuple[list[Path], Path, Path]) -> tuple[list[Path], int, str]:
        group, source, where = job
        code, output = tidy(source, where)
        if "[clang-diagnostic-error" in output and len(group) > 1:
            # Two of them have one name for different things.
            results = [tidy(path, database) for path in group]
            code, output = max(code for code, _ in results), "".join(text for _, text in results)
        return group, code, output

    good = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for group, code, output in pool.map(one, jobs):
            if group == [planted]:
                if "clang-analyzer-core.NullDereference" not in output:
                    print(f"clang-tidy does not see what it must, in {planted}\n{output}")
                    good = False
            elif code != 0:
                print(f"clang-tidy: {', '.join(str(path.relative_to(ROOT)) for path in group)}\n{output}")
                good = False
    return good


def main() -> int:
    """Command line; 0 when everything is clean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-tidy", action="store_true", help="only formatting, rooms and names")
    parser.add_argument("--turns", type=int, default=1, help="clang-tidy only for an N-th of the files")
    args = parser.parse_args()
    good = check_format(sources(".h", ".cc", ".inc"))
    good &= check_rooms(sources(".h", ".cc", ".inc"))
    good &= check_names(sources(".cc"))
    if not args.no_tidy:
        good &= check_tidy([path for path in sources(".cc") if "kernels_neon" not in path.name], args.turns)
    print("C++ lint: " + ("clean" if good else "FAILED"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
