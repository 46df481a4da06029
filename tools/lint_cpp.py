"""Checks the C++ sources: formatting (clang-format), defects (clang-tidy) and the direction of the rooms.

    python tools/lint_cpp.py [--no-tidy]

Needs the packages of the extra `lint` and of the build; makes its own compile database in build/lint.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

#: Which rooms a room may include from (docs/architecture.md: one direction).
MAY_INCLUDE = {
    "gemm": {"gemm"},
    "tuner": {"tuner", "gemm"},
    "cache": {"cache", "gemm"},
    "backends": {"backends", "abi", "gemm"},
    "abi": {"abi"},
    "provider": {"provider", "abi", "backends", "cache", "tuner", "gemm"},
    "bindings": {"bindings", "provider", "abi", "backends", "cache", "tuner", "gemm"},
    # tests/native/module: no room, but nobody may know it.
    "module": {"module", "bindings", "backends", "cache", "tuner", "gemm"},
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


def compile_database() -> Path:
    """Configures a build folder (nothing is compiled but the generated headers) and returns it."""
    folder = ROOT / "build" / "lint"
    pybind = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    configure = [str(BIN / "cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-Dpybind11_DIR={pybind}", "-DSKBUILD_PROJECT_VERSION=0", "-DTUNABLEOP_BUILD_TESTS=ON"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    target = [str(BIN / "cmake"), "--build", str(folder), "--target", "tunableop_abi_headers"]
    subprocess.run(target, check=True, stdout=subprocess.DEVNULL)
    return folder


def check_tidy(files: list[Path]) -> bool:
    """Whether clang-tidy finds nothing in any translation unit."""
    database = compile_database()

    def tidy(path: Path) -> tuple[Path, int, str]:
        command = [str(BIN / "clang-tidy"), "--quiet", "-p", str(database), str(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return path, done.returncode, done.stdout

    good = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, code, output in pool.map(tidy, files):
            if code != 0:
                print(f"clang-tidy: {path.relative_to(ROOT)}\n{output}")
                good = False
    return good


def main() -> int:
    """Command line; 0 when everything is clean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-tidy", action="store_true", help="only formatting and rooms")
    args = parser.parse_args()
    good = check_format(sources(".h", ".cc", ".inc"))
    good &= check_rooms(sources(".h", ".cc", ".inc"))
    if not args.no_tidy:
        good &= check_tidy([path for path in sources(".cc") if "kernels_neon" not in path.name])
    print("C++ lint: " + ("clean" if good else "FAILED"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
