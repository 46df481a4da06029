"""Libraries of candidates that a user brings: loaded, refused with a reason, run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import tunableop_native_tests as native
from kernel_cases import EPILOGUES

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "docs" / "candidate-libraries.md"


def example() -> str:
    """The library that the documentation shows."""
    (code,) = re.findall(r"```c\n(.*?)```", EXAMPLE.read_text(encoding="utf-8"), re.DOTALL)
    return code


def build(folder: Path, name: str, source: str) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / f"{name}.c").write_text(source)
    library = folder / f"{name}.so"
    include = ROOT / "ep" / "backends" / "external"
    command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", f"-I{include}", "-o", str(library)]
    subprocess.run([*command, str(folder / f"{name}.c"), "-lm"], check=True)
    return str(library)


def in_child(script: str, *libraries: str) -> str:
    """What a process that has these libraries prints."""
    source = "import tunableop_native_tests as native\n" + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", source],
        env=os.environ
        | {
            "TUNABLEOP_CANDIDATE_LIBRARIES": ":".join(libraries),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]]),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def libraries(*paths: str) -> dict[str, dict[str, str]]:
    """All but the project's own, by name."""
    shown = in_child("import json; print(json.dumps(native.libraries()))", *paths)
    return {x["library"]: x for x in json.loads(shown) if x["library"] not in ("native", "openblas")}


def test_nothing_is_loaded_unless_it_is_named() -> None:
    assert libraries() == {}


def test_the_library_of_the_documentation_is_found(tmp_path: Path) -> None:
    path = build(tmp_path, "mine", example())
    found = libraries("", path, "")["mine"]
    assert found["available"]
    assert found["identity"].startswith("1.0+")
    assert found["path"] == path


def test_a_library_that_was_compiled_again_has_another_identity(tmp_path: Path) -> None:
    path = build(tmp_path, "mine", example())
    before = libraries(path)["mine"]["identity"]
    os.utime(path, ns=(0, 0))
    assert libraries(path)["mine"]["identity"] != before


REFUSED = {
    "old": ("TUNABLEOP_CANDIDATE_ABI", "0", "version 0 of candidate_library.h, expected 1"),
    "new": ("TUNABLEOP_CANDIDATE_ABI", "99", "version 99 of candidate_library.h, expected 1"),
    "unnamed": ('"mine"', "0", "expected a name"),
    "misnamed": ('"mine"', '"My:Lib"', "expected a name of a-z"),
    "unidentified": ('"1.0"', "0", "it has no identity"),
    "incomplete": ("RowsAreIndependent, Run}", "RowsAreIndependent, 0}", "run is missing"),
    "twins": ("ABI, 1,", "ABI, 2,", "two kernels are named plain"),
    "countless": ("ABI, 1,", "ABI, 4000000000u,", "expected at most"),
    "suffixed": ('"plain"', '"plain/rows"', "ends in /rows"),
    "empty": ("return &kLibrary", "return 0", "it gives no functions"),
    "other": (
        "TunableOpCandidateLibrary* TunableOpGetCandidateLibrary",
        "TunableOpCandidateLibrary* GetAnother",
        "has no symbol TunableOpGetCandidateLibrary",
    ),
    "taken": ('"mine"', '"native"', "there is a library 'native' already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_library_that_cannot_be_used_says_why(case: str, tmp_path: Path) -> None:
    old, new, reason = REFUSED[case]
    source = example()
    assert old in source
    warnings = ("variable", "const-variable", "function")
    quiet = "".join(f'#pragma GCC diagnostic ignored "-Wunused-{name}"\n' for name in warnings)
    path = build(tmp_path, case, quiet + source.replace(old, new))
    good = build(tmp_path, "mine", source)
    found = libraries(path, good)
    assert not found[path]["available"]
    assert reason in found[path]["reason"]
    assert found["mine"]["available"]  # one bad library spoils nothing


def test_a_missing_file_and_the_same_library_twice(tmp_path: Path) -> None:
    good = build(tmp_path, "mine", example())
    again = str(shutil.copy(good, tmp_path / "again.so"))
    absent = str(tmp_path / "absent.so")
    found = libraries(absent, good, again)
    assert "absent.so" in found[absent]["reason"]
    assert found["mine"]["path"] == good
    assert "there is a library 'mine' already" in found[again]["reason"]


RUN = """
    import itertools, dataclasses
    from kernel_cases import Case, check
    for packed, epilogue, threads in itertools.product((True, False), {epilogues}, (1, 3)):
        case = Case(7, 150, 33, packed=packed, epilogue=epilogue, threads=threads)
        found = native.candidates(case.problem(), library="mine")
        assert [x.kernel for x in found] == (["plain"] if threads == 1 else ["plain/rows", "plain"]), found
        check(case, found)
    for extra in ({extras}):
        case = dataclasses.replace(Case(5, 20, 9, threads=2), **extra)
        found = native.candidates(case.problem(), library="mine")
        assert found, extra
        check(case, found)
"""


def test_the_helpers_of_the_header_read_every_layout(tmp_path: Path) -> None:
    extras = (
        "dict(trans_a=True), dict(trans_b=True), dict(alpha=0.5, beta=2.0), dict(trans_b=True, packed=True)"
    )
    script = RUN.format(epilogues=list(EPILOGUES), extras=extras)
    in_child(script, build(tmp_path, "mine", example()))


def test_what_a_kernel_cannot_do_it_is_not_asked_to(tmp_path: Path) -> None:
    script = """
    import numpy as np
    from kernel_cases import Case
    a = np.ones((2, 2), np.float32)
    for case in (Case(2, 2, 2, batch=3), Case(2, 2, 0)):
        assert native.candidates(case.problem(), library="mine") == [], case
    try:
        native.run_kernel(Case(2, 2, 0).problem(), native.Candidate("mine", "plain"), a, a, a.copy())
        raise AssertionError("it ran")
    except NotImplementedError as error:
        assert "mine:plain cannot compute" in str(error)
    for name in ("other", "plain/cols"):
        try:
            native.run_kernel(Case(2, 2, 2).problem(), native.Candidate("mine", name), a, a, a.copy())
            raise AssertionError("it ran")
        except FileNotFoundError as error:
            assert "has no kernel mine:" + name in str(error)
    """
    in_child(script, build(tmp_path, "mine", example()))


@pytest.mark.parametrize("kernel", ["plain", "plain/rows"])
def test_an_error_of_a_kernel_is_an_error_of_the_call(kernel: str, tmp_path: Path) -> None:
    script = f"""
    import numpy as np
    from kernel_cases import Case
    a = np.ones((6, 6), np.float32)
    problem = Case(6, 6, 6, threads=2).problem()
    try:
        native.run_kernel(problem, native.Candidate("mine", {kernel!r}), a, a, a.copy(), threads=2)
        raise AssertionError("it ran")
    except RuntimeError as error:
        assert "mine:plain returned 42" in str(error), error
    """
    in_child(script, build(tmp_path, "mine", example().replace("return 0;\n}", "return 42;\n}")))


def test_this_process_has_none() -> None:
    assert {x["library"] for x in native.libraries()} == {"native", "openblas"}
