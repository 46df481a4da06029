"""Runs smoke.py against several releases of onnxruntime, each in a virtual environment of its own.

    python tests/versions/run.py dist/*.whl [--versions 1.24.4 1.32.0 ...] [--keep FOLDER]

A release of 'newest' is whatever the package index has now. 1.23.2 cannot load the provider and must refuse
it clearly. Prints a table; the return code is the number of failures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

SMOKE = Path(__file__).resolve().parent / "smoke.py"
VERSIONS = ("1.23.2", "1.24.4", "1.27.0", "1.30.0", "newest")
TOO_OLD = (1, 24)


@dataclass
class Outcome:
    """One row of the table."""

    version: str
    passed: bool
    detail: str
    seconds: float


def too_old(version: str) -> bool:
    """Whether the release is one that must be refused."""
    return version != "newest" and tuple(int(part) for part in version.split(".")[:2]) < TOO_OLD


def command(arguments: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Runs a command and keeps what it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment,
        cwd=SMOKE.parent,
    )


def last_lines(text: str, count: int = 3) -> str:
    """The end of an output, on one line."""
    return " | ".join(line for line in text.strip().splitlines()[-count:] if line.strip()) or "(no output)"


def try_version(version: str, wheel: Path, folder: Path) -> Outcome:
    """Installs and runs; never raises."""
    started = time.monotonic()

    def outcome(passed: bool, detail: str) -> Outcome:
        return Outcome(version, passed, detail, time.monotonic() - started)

    try:
        venv.create(folder, with_pip=True)
        python = str(folder / "bin" / "python")
        runtime = "onnxruntime" if version == "newest" else f"onnxruntime=={version}"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # The wheel goes in without its dependencies: it asks for an onnxruntime that is not too old.
        for arguments in ([*pip, runtime, "numpy", "onnx"], [*pip, "--no-deps", str(wheel)]):
            done = command(arguments, timeout=900)
            if done.returncode != 0:
                return outcome(False, f"not installed: {last_lines(done.stderr)}")
        done = command([python, str(SMOKE), *(["--too-old"] if too_old(version) else [])], timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        return outcome(False, str(error))
    if done.returncode != 0:
        return outcome(False, f"return code {done.returncode}: {last_lines(done.stderr or done.stdout)}")
    return outcome(True, last_lines(done.stdout, 1))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    parser.add_argument("--keep", type=Path, help="make the environments here and leave them")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    if not wheel.is_file():
        parser.error(f"there is no wheel {wheel}")

    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.keep.resolve() if arguments.keep else Path(temporary)
        outcomes = []
        print(f"{'onnxruntime':<12} {'result':<7} {'seconds':>7}  detail")
        for version in arguments.versions:
            result = try_version(version, wheel, root / version)
            outcomes.append(result)
            word = "pass" if result.passed else "FAIL"
            print(f"{result.version:<12} {word:<7} {result.seconds:>7.0f}  {result.detail}", flush=True)
    failed = sum(not result.passed for result in outcomes)
    print(f"{len(outcomes) - failed} of {len(outcomes)} pass")
    return failed


if __name__ == "__main__":
    sys.exit(main())
