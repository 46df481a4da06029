"""The provider library itself: what it exports, what it logs, and what a hit costs in calls to the system."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import onnxruntime_ep_tunableop as tunableop
import pytest
from support.process import run_python
from support.sessions import needs_names

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
GLIBC = platform.libc_ver()[0] == "glibc"

DYNSYM, UNDEFINED, LOCAL = 11, 0, 0


def exported(library: Path) -> Iterator[str]:
    """Names that a 64-bit little-endian ELF library defines for others, from its dynamic symbol table."""
    data = library.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != DYNSYM:
            continue
        names = sections[link][4]
        for at in range(offset, offset + length, entry):
            name, info, _, section = struct.unpack_from("<IBBH", data, at)
            if section != UNDEFINED and info >> 4 != LOCAL:
                start = names + name
                yield data[start : data.index(b"\0", start)].decode()


def test_the_library_exports_its_five_functions_and_nothing_else() -> None:
    """Whatever else were visible could meet a symbol of the same name in another library."""
    assert sorted(exported(Path(tunableop.get_library_path()))) == [
        "CreateEpFactories",
        "ReleaseEpFactory",
        "TunableOpControl",
        "TunableOpControlFree",
        "TunableOpReplay",
    ]


#: onnxruntime hands a provider the session's own logger when it was added to the session options, and the
#: process's when it was named.
LOGGED = {
    "session_options": """
options = ort.SessionOptions()
options.log_severity_level = int(sys.argv[1])
session = ort.InferenceSession(BYTES, tunableop.session_options(options))
""",
    "providers": """
ort.set_default_logger_severity(int(sys.argv[1]))
tunableop.register()
session = by_name()
""",
    "keyword": """
ort.set_default_logger_severity(int(sys.argv[1]))
session = tunableop.InferenceSession(MODEL)
""",
}


@needs_names
@pytest.mark.parametrize("way", LOGGED)
@pytest.mark.parametrize(("severity", "tuned", "looked_up"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_log_lines_appear_at_their_level_and_not_above(
    way: str, severity: int, tuned: int, looked_up: int
) -> None:
    lines = run_python(LOGGED[way] + "right(session)\nright(session)\n", str(severity)).stderr

    def logged(what: str) -> int:
        return len(re.findall(rf"\[TunableOp\] {what}", lines))

    assert logged(r"tuned \(M=3,N=5,K=8,\S+\): \S+ .*default .* candidates") == tuned
    assert logged(r"miss \(M=3,N=5,K=8,\S+\)") == looked_up
    assert logged(r"hit \(M=3,N=5,K=8,\S+\): \S+") == looked_up


CHAIN = """
import ctypes
from onnx import helper
from support.graphs import graph, model, value

def chain(nodes):
    names = ["A", *(f"t{i}" for i in range(nodes - 1)), "Y"]
    body = [helper.make_node("MatMul", [a, "B"], [b]) for a, b in zip(names, names[1:])]
    square = np.eye(8, dtype=np.float32)[::-1].copy()
    return model(graph(body, [value("A", [8, 8])], [value("Y", [8, 8])], {"B": square}))

def bound(session):
    a, y = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("A", a)
    binding.bind_output("Y", "cpu", 0, np.float32, [8, 8], y.ctypes.data)
    options = ort.RunOptions()
    def call(keep=(a, y)):
        session.run_with_iobinding(binding, options)
    for _ in range(20):
        call()
    return call

def settings():
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", sys.argv[1])
    return options
"""

GROWTH = """
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def in_use():
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd

session = tunableop.InferenceSession(chain(16), settings())
call = bound(session)
in_use()
before, known = in_use(), tunableop.stats(session).hits
for _ in range(1000):
    call()
after = in_use()
assert tunableop.stats(session).hits - known == 16000
print(after - before)
"""


@pytest.mark.skipif(
    not GLIBC or tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 33), reason="mallinfo2"
)
def test_sixteen_thousand_hits_keep_no_memory() -> None:
    """Shows only that nothing is kept: less than a byte for each hit. The next test counts calls."""
    assert int(run_python(CHAIN + GROWTH, "0").stdout) < 16000


#: Counts calls of the allocator and of locks while `counting`, and passes them on: all of them, those that
#: the provider library makes, and those of libstdc++, which makes them for the provider or for onnxruntime.
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
struct counts { long all, own, standard; };
volatile long counting;
struct counts allocations, locks;

static void count(struct counts *counts, void *caller) {
  if (!counting) return;
  counting = 0;
  Dl_info from;
  ++counts->all;
  if (dladdr(caller, &from) && from.dli_fname) {
    counts->own += strstr(from.dli_fname, "libonnxruntime_providers_tunableop") != NULL;
    counts->standard += strstr(from.dli_fname, "libstdc++") != NULL;
  }
  counting = 1;
}
#define ALLOCATES count(&allocations, __builtin_return_address(0))

void *malloc(size_t n) { ALLOCATES; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { ALLOCATES; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { ALLOCATES; return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { ALLOCATES; return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { ALLOCATES; return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
  ALLOCATES;
  return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM;
}
static void *or_abort(void *p) { if (!p) abort(); return p; }
void *_Znwm(size_t n) { ALLOCATES; return or_abort(__libc_malloc(n)); }
void *_Znam(size_t n) { ALLOCATES; return or_abort(__libc_malloc(n)); }
void *_ZnwmSt11align_val_t(size_t n, size_t a) { ALLOCATES; return or_abort(__libc_memalign(a, n)); }
void *_ZnamSt11align_val_t(size_t n, size_t a) { ALLOCATES; return or_abort(__libc_memalign(a, n)); }

#define LOCK(name, type)                                           \
  int name(type *m) {                                              \
    static int (*next)(type *);                                    \
    if (!next) next = (int (*)(type *))dlsym(RTLD_NEXT, #name);    \
    count(&locks, __builtin_return_address(0));                    \
    return next(m);                                                \
  }
LOCK(pthread_mutex_lock, pthread_mutex_t)
LOCK(pthread_mutex_trylock, pthread_mutex_t)
LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
LOCK(pthread_spin_lock, pthread_spinlock_t)
"""

COUNT = """
import json
counter = ctypes.CDLL(None)

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("all", "own", "standard")]

counting = ctypes.c_long.in_dll(counter, "counting")
counters = {name: Counts.in_dll(counter, name) for name in ("allocations", "locks")}

def count(call):
    for each in counters.values():
        each.all = each.own = each.standard = 0
    counting.value = 1
    call()
    counting.value = 0
    return {name: {key: getattr(each, key) for key, _ in each._fields_} for name, each in counters.items()}

source = chain(64)
session = tunableop.InferenceSession(source, settings())
stock = ort.InferenceSession(source.SerializeToString(), settings(), providers=["CPUExecutionProvider"])
feeds = {"A": np.ones((8, 8), np.float32)}
found = {"miss": count(lambda: session.run(None, feeds))}
ours, theirs = bound(session), bound(stock)
known = tunableop.stats(session).hits
found |= {"hits": count(ours), "stock": count(theirs)}
assert tunableop.stats(session).hits - known == 64
print(json.dumps(found))
"""


@pytest.mark.skipif(COMPILER is None or not GLIBC, reason="counts by a C library of its own, on glibc")
@pytest.mark.parametrize("disable_prepacking", ["0", "1"])
def test_a_hit_allocates_nothing_and_takes_no_lock(disable_prepacking: str, tmp_path: Path) -> None:
    """Of 64 hits in one run. What ONNX Runtime does to call a node is not more than for its own nodes."""
    source, library = tmp_path / "counter.c", tmp_path / "counter.so"
    source.write_text(COUNTER)
    subprocess.run([str(COMPILER), "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    done = run_python(CHAIN + COUNT, disable_prepacking, env={**os.environ, "LD_PRELOAD": str(library)})
    found = json.loads(done.stdout)
    for what in ("allocations", "locks"):
        miss, hits, stock = (found[run][what] for run in ("miss", "hits", "stock"))
        assert miss["own"] > 0, f"{what}: a miss has some, which the counter must see"
        assert hits["own"] == 0, what
        assert hits["standard"] <= stock["standard"], what
        assert hits["all"] <= stock["all"], what
