"""No memory for what only makes things faster: the run goes on without."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.process import run_python

NO_MAP = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
/* Packed, 1024 x 1024 floats take 4 MiB, and 2 MiB to align them. */
void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) {
  static void* (*real)(void*, size_t, int, int, int, off_t);
  if (length == 6u << 20) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  if (real == 0) *(void**)&real = dlsym(RTLD_NEXT, "mmap");
  return real(address, length, protection, flags, file, offset);
}
"""

NO_NEW = """
#include <cstdlib>
#include <new>
/* What tuning keeps of an answer of 3 x 12347 floats. */
void* operator new(std::size_t size) {
  if (size >= 148164 && size < 148164 + 64) throw std::bad_alloc();
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
"""

NO_THREAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (getenv("NO_THREADS") != 0) return EAGAIN;
  if (real == 0) *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, run, argument);
}
"""


def preloading(folder: Path, source: str, suffix: str, compiler: str) -> dict[str, str]:
    """An environment in which `source` comes first."""
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"there is no {compiler}")
    file, library = folder / f"shim.{suffix}", folder / "libshim.so"
    file.write_text(source)
    subprocess.run([found, "-shared", "-fPIC", "-O1", "-o", str(library), str(file), "-ldl"], check=True)
    return os.environ | {"LD_PRELOAD": str(library)}


def test_a_weight_that_cannot_be_packed_is_used_as_it_is(tmp_path: Path) -> None:
    script = """
    B = np.random.default_rng(3).standard_normal((1024, 1024), dtype=np.float32)
    options = ort.SessionOptions()
    options.log_severity_level = 2
    session = tunableop.InferenceSession(matmul_model(["m", 1024], None, constants={"B": B}), options)
    a = np.random.default_rng(4).standard_normal((3, 1024), dtype=np.float32)
    np.testing.assert_allclose(session.run(None, {"A": a})[0], a @ B, rtol=1e-3, atol=1e-3)
    (section,) = tunableop.get_tuning_results(session)["machines"]
    assert [entry["b_layout"] for entry in section["entries"]] == ["plain"]
    """
    done = run_python(script, env=preloading(tmp_path, NO_MAP, "c", "cc"))
    assert "no memory for 4194304 bytes; the weight stays as it is" in done.stderr


def test_a_run_goes_on_where_there_is_no_memory_to_measure(tmp_path: Path) -> None:
    script = """
    B = np.random.default_rng(3).standard_normal((8, 12347), dtype=np.float32)
    options = ort.SessionOptions()
    options.log_severity_level = 2
    model = matmul_model(["m", 8], None, constants={"B": B})
    session = tunableop.InferenceSession(model, options, tuning="online", max_tuning_ms=50.0)
    for _ in range(2):
        np.testing.assert_allclose(session.run(None, {"A": A})[0], A @ B, rtol=1e-4, atol=1e-4)
    print(tunableop.stats(session).fallbacks)
    """
    done = run_python(script, env=preloading(tmp_path, NO_NEW, "cc", "c++"))
    assert done.stdout.strip() == "{'out_of_memory': 2}"
    assert "out of memory while tuning; the default kernel runs" in done.stderr


def test_requests_are_answered_where_there_are_no_threads_to_measure_with(tmp_path: Path) -> None:
    script = """
    import os, time

    def until(condition):
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, tunableop.stats(session)
            time.sleep(0.02)

    def session_of(**options):
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 2
        return tunableop.InferenceSession(MODEL, settings, max_tuning_ms=20.0, **options)

    B = np.random.default_rng(2).standard_normal((96, 80), dtype=np.float32)
    MODEL = matmul_model(["m", 96], None, constants={"B": B})
    sizes = [np.random.default_rng(m).standard_normal((m, 96), dtype=np.float32) for m in (48, 33)]

    def right(session, a=sizes[0]):
        np.testing.assert_allclose(session.run(None, {"A": a})[0], a @ B, rtol=1e-3, atol=1e-3)
        return True

    right(session_of(tuning="online", revalidate_ms=0))  # libraries start threads of their own
    online, session = session_of(tuning="online"), session_of(tuning="background", background_share=1.0)
    os.environ["NO_THREADS"] = "1"
    assert right(online)
    for _ in range(4000):
        right(session)
    stats = tunableop.stats(session)
    assert (stats.tuned, stats.pending) == (0, 0), stats
    del os.environ["NO_THREADS"]
    until(lambda: right(session) and tunableop.stats(session).tuned == 1)

    # With a thread in the background, and none for its measurement.
    os.environ["NO_THREADS"] = "1"
    for _ in range(4000):
        right(session, sizes[1])
    until(lambda: any("no threads" in note for note in tunableop.explain(session).notes))
    assert tunableop.stats(session).tuned == 1
    del os.environ["NO_THREADS"]
    until(lambda: right(session, sizes[1]) and tunableop.stats(session).tuned == 2)
    """
    run_python(script, env=preloading(tmp_path, NO_THREAD, "c", "cc"))
