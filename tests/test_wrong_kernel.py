"""A library whose answers are wrong: it never gets a say again, in any session of the process."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from support.process import run_python

SOURCE = """
#include <stdint.h>
void cblas_sgemm(int order, int ta, int tb, int32_t m, int32_t n, int32_t k, float alpha, const float* a,
                 int32_t lda, const float* b, int32_t ldb, float beta, float* c, int32_t ldc) {
  for (int32_t i = 0; i < m; ++i)
    for (int32_t j = 0; j < n; ++j) c[(int64_t)i * ldc + j] = 7.0f;
}
void openblas_set_num_threads(int count) {}
char* openblas_get_config(void) { return "OpenBLAS 0.3.99 wrong"; }
char* openblas_get_corename(void) { return "Wrong"; }
"""


SCRIPT = """
one_thread = ort.SessionOptions()
one_thread.intra_op_num_threads = 1
model = matmul_model(["m", 1024], [1024, "n"])  # no weight: OpenBLAS takes part
B = np.ones((1024, 1024), np.float32)

def make(**options):
    return tunableop.InferenceSession(model, one_thread, max_tuning_ms=200.0, **options)

def answer(session, m):
    y = session.run(None, {"A": np.ones((m, 1024), np.float32), "B": B})[0]
    assert (y == y[0, 0]).all()
    return y[0, 0]

def notes(session, m):
    return [note for note in tunableop.explain(session).notes if f"(M={m}," in note]

def noticed(session):
    # A call that the machine holds up is too slow to be checked; the next size is another chance.
    for m in range(100, 150):
        assert answer(session, m) == 1024
        found = [note for note in notes(session, m) if "rejected: wrong answer" in note]
        if found:
            assert "openblas:" in found[0]
            return m
    raise AssertionError(tunableop.explain(session))

def blamed_on_openblas(results):
    for entry in results["machines"][0]["entries"]:
        entry["winner"] |= {"library": "openblas", "kernel": KERNEL}
        entry["library_identity"] = tunableop.devices()[0].libraries["openblas"]
    return results

KERNEL = "sgemm/none"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With an OpenBLAS that is fast and wrong."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "wrong.c", tmp_path / "libwrong.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    return os.environ | {"TUNABLEOP_OPENBLAS_LIBRARY": str(library)}


def test_a_wrong_kernel_is_denied_in_every_session_of_the_process(environment: dict[str, str]) -> None:
    script = """
    first = make()
    m = noticed(first)
    for session in (first, make()):
        assert answer(session, m + 1) == 1024
        found = notes(session, m + 1)
        assert found and all("rejected: denied: wrong answer" in note for note in found), found

    # What a file says of a denied kernel is not taken.
    cached = make(tuning="cached")
    refused = tunableop.set_tuning_results(cached, blamed_on_openblas(tunableop.get_tuning_results(first)))
    assert refused and all("denied in this process" in line for line in refused), refused
    assert answer(cached, m) == 1024
    """
    run_python(SCRIPT + textwrap.dedent(script), env=environment)


def test_a_choice_made_before_a_denial_is_forgotten(environment: dict[str, str]) -> None:
    """A session runs the kernel, unchecked, from a file; another finds that it is wrong."""
    script = """
    learning = make(candidates="default", verify=0)
    answer(learning, 90)
    answer(learning, 91)
    session = make(tuning="cached")
    results = blamed_on_openblas(tunableop.get_tuning_results(learning))
    assert tunableop.set_tuning_results(session, results) == []
    assert answer(session, 90) == 7
    noticed(make())
    assert answer(session, 90) == answer(session, 91) == 1024
    assert not tunableop.get_tuning_results(session)["machines"][0]["entries"]
    """
    run_python(SCRIPT + textwrap.dedent(script), env=environment)
