"""A library whose answers are wrong: it never gets a say again, in any session of the process."""

from __future__ import annotations

import os
import shutil
import subprocess
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


def test_a_wrong_kernel_is_denied_in_every_session_of_the_process(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "wrong.c", tmp_path / "libwrong.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    script = """
    options = dict(tuning="online", max_tuning_ms=200.0)
    model = matmul_model(["m", 512], [512, "n"])  # no weight: OpenBLAS takes part
    b = np.ones((512, 512), np.float32)

    def run(session, m):
        y = session.run(None, {"A": np.ones((m, 512), np.float32), "B": b})[0]
        assert (y == 512).all()

    cached = tunableop.InferenceSession(model, tuning="cached")
    before = tunableop.InferenceSession(model, **options)
    run(before, 100)
    notes = tunableop.explain(before).notes
    wrong = [note for note in notes if "rejected: wrong answer" in note]
    assert wrong and all("openblas:" in note for note in wrong), notes
    run(before, 101)
    notes = [note for note in tunableop.explain(before).notes if "M=101" in note]
    assert notes and all("rejected: denied: wrong answer" in note for note in notes), notes

    # What a file says of a denied kernel is not taken.
    results = tunableop.get_tuning_results(before)
    (section,) = results["machines"]
    name = next(note for note in notes).split("openblas:")[1].split(" ")[0]
    for entry in section["entries"]:
        entry["winner"] |= {"library": "openblas", "kernel": name}
        entry["library_identity"] = tunableop.devices()[0].libraries["openblas"]
    refused = tunableop.set_tuning_results(cached, results)
    assert len(refused) == 2 and all("denied in this process" in line for line in refused), refused
    run(cached, 100)
    """
    env = os.environ | {"TUNABLEOP_OPENBLAS_LIBRARY": str(library)}
    run_python(script, env=env)


def test_a_choice_made_before_a_denial_is_forgotten(tmp_path: Path) -> None:
    """A session runs the kernel, unchecked, from a file; another finds that it is wrong."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "wrong.c", tmp_path / "libwrong.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    script = """
    model = matmul_model(["m", 512], [512, "n"])
    b = np.ones((512, 512), np.float32)

    def answer(session, m):
        return session.run(None, {"A": np.ones((m, 512), np.float32), "B": b})[0][0, 0]

    # Unverified, the fast and wrong kernel wins.
    session = tunableop.InferenceSession(model, tuning="online", max_tuning_ms=200.0, verify=0)
    assert answer(session, 100) == 7 or answer(session, 100) == 7, tunableop.explain(session)
    other = tunableop.InferenceSession(model, tuning="online", max_tuning_ms=200.0)
    assert answer(other, 100) == 512
    assert any("wrong answer" in note for note in tunableop.explain(other).notes)
    assert answer(session, 100) == 512
    assert all("openblas" not in e["winner"]["library"]
               for e in tunableop.get_tuning_results(session)["machines"][0]["entries"])
    """
    env = os.environ | {"TUNABLEOP_OPENBLAS_LIBRARY": str(library)}
    run_python(script, env=env)
