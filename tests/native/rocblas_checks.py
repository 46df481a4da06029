"""What test_rocblas.py checks on each flavour of simulated libraries, in a process of its own.

    python rocblas_checks.py CHECK

Fails by an exception.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tunableop_native_tests as native
from card_checks import WORKSPACE, capture, count, set_faults
from lt_products import Product, Trial, checked, variants

LIBRARY = "rocblas"


def open_library() -> native.CardLibrary:
    return native.CardLibrary(0, LIBRARY)


def solution(index: int) -> native.Candidate:
    return native.Candidate(LIBRARY, f"solution/{index}")


def numerics() -> None:
    """Shapes, types, transposes, batches, shared operands, alpha and beta, against numpy."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    total = 0
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        base = Product(24, 40, 64, dtype)
        least = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}[dtype]  # one element
        for product in [
            base,
            Product(1, 1, 1, dtype),
            Product(1, 96, 128, dtype),
            Product(7, 13, 101, dtype, align=least),
            replace(base, trans_a=True),
            replace(base, trans_b=True, pad=8),
            replace(base, trans_a=True, trans_b=True, pad=3, align=least),
            replace(base, batch=3, pad=8),
            replace(base, batch=3, trans_a=True, pad=1, align=least),
            replace(base, batch=3, shared="a"),
            replace(base, batch=3, shared="b", trans_b=True),
            replace(base, batch=2, shared="ab", alpha=0.5),
            *variants(base, alpha=[-2.0, 0.5], beta=[1.0, -0.5]),
            replace(base, alpha=0.0, beta=1.0),
            replace(base, batch=2, beta=0.5, pad=2, align=least),
        ]:
            found = checked(library, lane, product)
            assert found, f"nothing for {product}"
            total += len(found)
    assert total > 500, total
    assert count("misuse") == 0


def names() -> None:
    """The default first, then solutions by index; a name alone makes the kernel again."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    for product in (Product(64, 96, 128, "float16"), Product(16, 256, 512, batch=2)):
        trial = Trial(product, library, lane)
        few, every = (library.candidates(trial.problem, scope_all=scope) for scope in (False, True))
        assert few == library.candidates(trial.problem), "the list changes"
        assert 1 < len(few) <= 8 < len(every)
        assert {candidate.kernel for candidate in few} <= {candidate.kernel for candidate in every}
        for found in (few, every):
            assert found[0].full_name == "rocblas:default"
            indices = [candidate.opaque_id for candidate in found[1:]]
            assert indices == sorted(set(indices))
            assert [candidate.kernel for candidate in found[1:]] == [f"solution/{i}" for i in indices]
        # A handful is taken from all parts of the list.
        assert few[1] == every[1]
        assert every.index(few[-1]) > len(every) // 2
        for candidate in every:
            again = native.Candidate(LIBRARY, candidate.kernel)
            again.opaque_id = 12345
            before = count(f"kernels:{candidate.opaque_id}")
            trial.check(again)
            if candidate.kernel != "default":
                assert count(f"kernels:{candidate.opaque_id}") == before + 1, candidate


def identity() -> None:
    """Prints it."""
    print(open_library().identity)


def wrong_names() -> None:
    library = open_library()
    problem = Product(64, 96, 128).problem()
    known = library.candidates(problem)[1].opaque_id
    wrong = ["", "nonsense", "default/1", "solution", "solution/", "solution/x", f"solution/{known}x"]
    wrong += [f"solution/ {known}", f"solution/+{known}", "solution/0", "solution/-1", "solution/4294967296"]
    for kernel in wrong:
        candidate = native.Candidate(LIBRARY, kernel)
        candidate.opaque_id = known
        with pytest.raises(FileNotFoundError):
            library.prepare(problem, candidate)
    with pytest.raises(FileNotFoundError):
        library.prepare(problem, native.Candidate("hipblaslt", "default"))


def indices_that_do_not_fit() -> None:
    """The library is asked whether an index fits before it is used."""
    library = open_library()
    single = Product(64, 96, 128).problem()
    other = Product(64, 96, 128, "float16").problem()
    of_single = {c.opaque_id for c in library.candidates(single, scope_all=True)[1:]}
    of_other = {c.opaque_id for c in library.candidates(other, scope_all=True)[1:]}
    wrong = [99999999, -99999999, *(of_other - of_single)]
    assert len(wrong) > 2
    matmuls = count("matmuls")
    for index in wrong:
        with pytest.raises(NotImplementedError, match=f"solution/{index}: .*invalid value"):
            library.prepare(single, solution(index))
    for index in of_single:
        library.prepare(single, solution(index))
    assert count("matmuls") == matmuls, "asking runs something"


def unchecked_indices() -> None:
    """With ROCBLAS_CHECK_NUMERICS rocBLAS reads operands first, and is not asked."""
    library = open_library()
    product = Product(64, 96, 128)
    lane = library.lane(WORKSPACE)
    trial = Trial(product, library, lane)
    kernel = library.prepare(trial.problem, solution(99999999))
    with pytest.raises(NotImplementedError, match="invalid value"):
        trial.run(kernel)


def refusals() -> None:
    """What rocBLAS cannot do: no candidates, and a reason for whoever insists."""
    library = open_library()
    (default, *_) = library.candidates(Product(64, 96, 128).problem())

    def refused(problem: native.Problem, reason: str, kind: type[Exception] = NotImplementedError) -> None:
        assert library.candidates(problem, scope_all=True) == [], problem
        assert library.explore(problem, [], 1, 8) == [], problem
        with pytest.raises(kind, match=reason):
            library.prepare(problem, default)

    packed = Product(64, 96, 128).problem()
    packed.b_layout, packed.ldb = native.BLayout.packed, 0
    refused(packed, "packed")
    mixed = Product(64, 96, 128, "float16").problem()
    mixed.c_type = native.DataType.float32
    refused(mixed, "types")
    for epilogue in ("bias", "relu", "gelu", "bias_gelu"):
        refused(Product(64, 96, 128, epilogue=epilogue).problem(), "epilogue")
    for size in ("m", "n", "k", "lda", "ldb", "ldc"):
        huge = Product(64, 96, 128).problem()
        setattr(huge, size, 1 << 31)
        if size == "n":
            huge.ldb = huge.ldc = huge.n
        if size == "k":
            huge.lda = huge.k
        refused(huge, "32 bits")
    nothing = Product(64, 96, 128).problem()
    nothing.k = 0
    refused(nothing, "k is 0")
    overlapping = Product(64, 96, 128, batch=2).problem()
    overlapping.stride_c = 0
    refused(overlapping, "one C")
    short = Product(64, 96, 128).problem()
    short.ldc = 95
    refused(short, "ldc", ValueError)


def empty() -> None:
    """A C without elements is computed by nothing."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    full = Trial(Product(8, 8, 8), library, lane)
    for size in ("m", "n", "batch"):
        problem = Product(8, 8, 8).problem()
        setattr(problem, size, 0)
        (candidate,) = library.candidates(problem, scope_all=True)
        matmuls = count("matmuls")
        kernel = library.prepare(problem, candidate)
        kernel.run(lane, full.device_a, full.device_b, full.upload(full.start()))
        assert count("matmuls") == matmuls


def explore() -> None:
    """The search is the same for the same seed, finds what can run, and nothing that is known."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(64, 96, 256, "float16"), library, lane)
    every = library.candidates(trial.problem, scope_all=True)
    known = [(candidate, 0.0) for candidate in library.candidates(trial.problem)]
    drawn = library.explore(trial.problem, known, 7, 5)
    assert len(drawn) == 5
    assert drawn == library.explore(trial.problem, known, 7, 5)
    assert any(drawn != library.explore(trial.problem, known, seed, 5) for seed in range(8, 12))
    assert not {c.kernel for c in drawn} & {c.kernel for c, _ in known}
    assert {c.kernel for c in drawn} <= {c.kernel for c in every}
    for candidate in drawn:
        trial.check(candidate)
    # Every second one beside the fastest: the nearest first.
    fastest = every[len(every) // 2]
    timed = [(every[0], 0.5), (every[1], 2.0), (fastest, 1.0)]
    distance = {c.opaque_id: abs(c.opaque_id - fastest.opaque_id) for c in every[2:] if c != fastest}
    for seed in range(5):
        near = library.explore(trial.problem, timed, seed, 3)
        assert distance[near[0].opaque_id] == min(distance.values())
        left = {index: far for index, far in distance.items() if index not in {c.opaque_id for c in near[:2]}}
        assert distance[near[2].opaque_id] == min(left.values())
    assert library.explore(trial.problem, known, 7, 0) == []
    # All of them, and then nothing.
    rest = library.explore(trial.problem, known, 3, 1000)
    assert sorted(c.opaque_id for c in rest) == sorted(
        {c.opaque_id for c in every[1:]} - {c.opaque_id for c, _ in known}
    )
    assert library.explore(trial.problem, [(c, 1.0) for c in every], 3, 8) == []


def no_atomics() -> None:
    """Solutions that add in any order are not for us."""
    library = open_library()
    product = Product(64, 96, 2048)
    ours = [c.opaque_id for c in library.candidates(product.problem(), scope_all=True)[1:]]
    rocblas = ctypes.CDLL(str(next(iter(Path(os.environ["TUNABLEOP_ROCM_PATH"]).glob("librocblas.so.*")))))
    handle = ctypes.c_void_p()
    assert rocblas.rocblas_create_handle(ctypes.byref(handle)) == 0
    f32, no, one = 151, 111, ctypes.c_float(1.0)
    somewhere = ctypes.c_void_p(4096)

    def listed() -> list[int]:
        size, indices = ctypes.c_int(1000), (ctypes.c_int * 1000)()
        operands = (somewhere, f32, product.n, somewhere, f32, product.k)
        scalar = ctypes.byref(one)
        sizes = (product.n, product.m, product.k, scalar, *operands, scalar)
        rest = (somewhere, f32, product.n, somewhere, f32, product.n, f32, 1, 0)
        function = rocblas.rocblas_gemm_ex_get_solutions
        assert function(handle, no, no, *sizes, *rest, None, ctypes.byref(size)) == 0
        assert function(handle, no, no, *sizes, *rest, indices, ctypes.byref(size)) == 0
        return sorted(indices[: size.value])

    assert set(listed()) > set(ours)
    assert rocblas.rocblas_set_atomics_mode(handle, 0) == 0
    assert listed() == ours
    assert rocblas.rocblas_destroy_handle(handle) == 0


def workspace() -> None:
    """A kernel that needs more than its queue has is an error, and allocates nothing."""
    library = open_library()
    roomy, small, bare = library.lane(WORKSPACE), library.lane(4096), library.lane(0)
    trial = Trial(Product(64, 64, 2048), library, roomy)
    too_big = 0
    for candidate in library.candidates(trial.problem, scope_all=True):
        kernel = library.prepare(trial.problem, candidate)
        for lane in (roomy, bare):
            trial.judge(trial.run(kernel, lane), candidate.full_name)
        try:
            trial.judge(trial.run(kernel, small), candidate.full_name)
        except MemoryError as error:
            assert "workspace" in str(error)  # noqa: PT017 (most kernels raise nothing)
            too_big += 1
    assert too_big > 0, "no kernel of the simulation needs a workspace"
    # What needs more than any queue has is not even listed.
    small_c, large_c = (Product(size, 1024, 2048).problem() for size in (512, 2048))
    listed, left = (
        {c.opaque_id for c in library.candidates(problem, scope_all=True)} for problem in (small_c, large_c)
    )
    assert left < listed
    for index in listed - left:
        with pytest.raises(MemoryError, match="workspace"):
            library.prepare(large_c, solution(index))


def concurrency() -> None:
    """One plan, many threads, each with a C of its own, on one stream or on several."""
    library = open_library()
    product = Product(32, 48, 64)
    lanes = [library.lane(WORKSPACE) for _ in range(8)]
    trial = Trial(product, library, lanes[0])
    for candidate in library.candidates(trial.problem)[:2]:
        kernel = library.prepare(trial.problem, candidate)
        for shared in (False, True):
            cs = [trial.upload(trial.start()) for _ in lanes]
            kernel.hammer(
                [lanes[0]] * len(lanes) if shared else lanes,
                trial.device_a,
                trial.device_b,
                [trial.device_bias] * len(lanes),
                cs,
                400,
            )
            for device_c in cs:
                flat = trial.start()
                device_c.read(flat)
                trial.judge(flat, "together")
    assert count("misuse") == 0, count("misuse:handle_in_two_threads")
    # One for questions, one for each stream, and at most three more for the one that was shared;
    # hipBLASLt's own.
    assert count("handles") <= 1 + len(lanes) + 3 + 2


def hits() -> None:
    """A call makes no handle, asks nothing and allocates nothing on the card."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(32, 48, 64), library, lane)
    watched = ("handles", "solutions", "mallocs", "async_mallocs")
    cs = [trial.upload(trial.start())]
    for candidate in library.candidates(trial.problem):
        kernel = library.prepare(trial.problem, candidate)
        trial.judge(trial.run(kernel), "first")
        before = [count(what) for what in watched]
        matmuls = count("matmuls")
        kernel.hammer([lane], trial.device_a, trial.device_b, [trial.device_bias], cs, 50)
        assert [count(what) for what in watched] == before
        assert count("matmuls") == matmuls + 50


def captured() -> None:
    """A graph holds the product; a handle cannot be made meanwhile, and is not."""
    library = open_library()
    trial = Trial(Product(32, 48, 64, beta=0.0), library, library.lane(WORKSPACE))
    for candidate in library.candidates(trial.problem):
        kernel = library.prepare(trial.problem, candidate)
        lane, bare = library.lane(WORKSPACE), library.lane(0)
        device_c = trial.upload(trial.start())

        def judge(device_c: native.CardArray = device_c, name: str = candidate.full_name) -> None:
            flat = trial.start()
            device_c.read(flat)
            trial.judge(flat, f"{name} from a graph")

        def nothing(device_c: native.CardArray = device_c) -> None:
            flat = trial.start()
            device_c.read(flat)
            assert np.isnan(flat).all()

        operands = (trial.device_a, trial.device_b, device_c)
        handles = count("handles")
        with capture(lane, nothing), pytest.raises(OSError, match="graph"):
            kernel.enqueue(lane, *operands)
        assert count("handles") == handles
        trial.run(kernel, lane)
        trial.run(kernel, bare)
        handles, mallocs = count("handles"), count("mallocs")
        with capture(lane, judge):
            kernel.enqueue(lane, *operands)
            assert (count("handles"), count("mallocs")) == (handles, mallocs)
        with capture(bare, lambda: None), pytest.raises(NotImplementedError, match="without a workspace"):
            kernel.enqueue(bare, *operands)
    assert count("misuse") == 0


def errors() -> None:
    """Calls that a provider should not make, and errors of the library, are values."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(32, 48, 64), library, lane)
    (default, first, *_) = library.candidates(trial.problem)
    kernel = library.prepare(trial.problem, default)
    with pytest.raises(ValueError, match="on a card"):
        kernel.run_without_queue()
    set_faults("execution_failed")
    with pytest.raises(RuntimeError, match="rocblas_gemm_ex: internal error"):
        trial.run(kernel)
    set_faults("not_supported")
    with pytest.raises(NotImplementedError, match="rocblas_gemm_ex: not implemented"):
        trial.run(kernel)
    set_faults("blas_unsupported")
    with pytest.raises(NotImplementedError, match="not for this architecture"):
        trial.run(kernel)
    other = Product(48, 48, 64).problem()  # the first one's list is still known
    assert [c.kernel for c in library.candidates(other, scope_all=True)] == ["default"]
    assert library.explore(other, [], 1, 8) == []
    with pytest.raises(NotImplementedError, match="not for this architecture"):
        library.prepare(other, first)
    set_faults("")
    trial.judge(trial.run(kernel), "after faults")
    assert len(library.candidates(other)) > 1, "a list that failed is kept"


def moved_indices() -> None:
    """Another build has other kernels behind the same indices: what is found is right all the same."""
    library = open_library()
    checked(library, library.lane(WORKSPACE), Product(24, 40, 64))


def no_solutions() -> None:
    """A library without the beta functions has its default, and no more."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    for product in (Product(64, 96, 128), Product(24, 40, 64, "float16", batch=2)):
        trial = Trial(product, library, lane)
        (default,) = library.candidates(trial.problem, scope_all=True)
        trial.check(default)
        assert library.explore(trial.problem, [], 1, 8) == []
        with pytest.raises(FileNotFoundError, match="no list of solutions"):
            library.prepare(trial.problem, solution(5000))


def two_cards() -> None:
    """Each card has handles of its own."""
    libraries = [native.CardLibrary(card, LIBRARY) for card in (1, 0, 1)]
    for library in libraries:
        lane = library.lane(WORKSPACE)
        checked(library, lane, Product(24, 40, 64, batch=2))
    assert count("misuse") == 0


def released() -> None:
    """What a queue made goes with it."""
    library = open_library()
    trial = Trial(Product(32, 48, 64), library, library.lane(WORKSPACE))
    kernel = library.prepare(trial.problem, library.candidates(trial.problem)[0])
    trial.run(kernel)
    alive = count("handles") - count("handles_destroyed")
    for _ in range(5):
        lane = library.lane(WORKSPACE)
        trial.run(kernel, lane)
        del lane
    assert count("handles") - count("handles_destroyed") == alive


def state() -> None:
    """Prints what the list of libraries says."""
    for line in native.gpu_libraries():
        if line["library"] == "librocblas":
            print(f"{line['available']}|{line['reason']}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
