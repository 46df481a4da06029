"""What test_lt.py checks on each flavour of simulated libraries, in a process of its own.

    python lt_checks.py LIBRARY CHECK

Fails by an exception.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import tunableop_native_tests as native
from card_checks import WORKSPACE, capture, count, is_hip, set_faults
from lt_products import Product, Trial, checked, variants

LIBRARY = "cublaslt"


def open_library() -> native.CardLibrary:
    return native.CardLibrary(0, LIBRARY)


def numerics() -> None:
    """Shapes, types, transposes, batches, shared operands, epilogues, alpha and beta, against numpy."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    total = 0
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        base = Product(24, 40, 64, dtype)
        least = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}[dtype]  # one element
        products = [
            base,
            Product(1, 1, 1, dtype),
            Product(1, 96, 128, dtype),
            Product(7, 13, 101, dtype, align=least),
            replace(base, trans_a=True),
            replace(base, trans_b=True, pad=8),
            replace(base, trans_a=True, trans_b=True, pad=3, align=least),
            replace(base, batch=3, pad=8),
            replace(base, batch=3, shared="a"),
            replace(base, batch=3, shared="b", trans_b=True),
            replace(base, batch=2, shared="ab", alpha=0.5),
            *variants(base, alpha=[-2.0, 0.5], beta=[1.0, -0.5]),
            replace(base, alpha=0.0, beta=1.0),
        ]
        if dtype != "float64":
            bias = replace(base, epilogue="bias")
            products += [
                *variants(base, epilogue=["bias", "relu", "bias_relu"]),
                replace(bias, beta=1.0, alpha=0.5, pad=8),
                replace(bias, batch=3, epilogue="bias_relu", shared="b"),
            ]
        if dtype == "float32":
            products += variants(base, precision=["tf32"])
        for product in products:
            found = checked(library, lane, product)
            optional = product.precision != "exact"
            assert found or optional, f"nothing for {product}"
            total += len(found)
    assert total > 100, total


def names() -> None:
    """Names are unique, say what they are, and make the kernel again without anything else."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    for product in (Product(64, 96, 128, "float16"), Product(16, 256, 512, epilogue="bias")):
        trial = Trial(product, library, lane)
        found = library.candidates(trial.problem)
        assert len(found) > 1
        assert found == library.candidates(trial.problem), "the list changes"
        assert len({candidate.kernel for candidate in found}) == len(found)
        for candidate in found:
            assert candidate.library == LIBRARY
            assert candidate.workspace_bytes <= WORKSPACE
            trial.check(native.Candidate(LIBRARY, candidate.kernel))
            if not is_hip():
                algorithm, rest = candidate.kernel.split(":")
                assert algorithm.isdigit()
                assert [part[0] for part in rest.split(".")] == list("tskrwciu"), candidate
        assert {c.kernel for c in found} <= {
            c.kernel for c in library.candidates(trial.problem, scope_all=True)
        }
    assert library.identity.endswith("+gfx942" if is_hip() else "+sm_90"), library.identity


def wrong_names() -> None:
    library = open_library()
    problem = Product(64, 96, 128).problem()
    (first, *_) = library.candidates(problem)
    wrong = ["", "nonsense", first.kernel + "x", "/bt", "index:99999999", "9999:t1.s1.k1.r0.w0.c0.i0.u0"]
    if not is_hip():
        wrong += [first.kernel.replace(".u", ".v"), first.kernel + ".z1", " " + first.kernel]
    for kernel in wrong:
        candidate = native.Candidate(LIBRARY, kernel)
        candidate.opaque_id = first.opaque_id
        try:
            library.prepare(problem, candidate)
        except FileNotFoundError:
            continue
        except NotImplementedError:
            assert kernel == "/bt", kernel  # there is no copy of a B that is no weight
            continue
        raise AssertionError(f"{kernel!r} is a kernel")


def refusals() -> None:
    """What the libraries cannot do: no candidates, and a reason for whoever insists."""
    library = open_library()
    (first, *_) = library.candidates(Product(64, 96, 128).problem())

    def refused(problem: native.Problem, reason: str) -> None:
        assert library.candidates(problem, scope_all=True) == [], problem
        assert library.explore(problem, [], 1, 8) == [], problem
        with pytest.raises(NotImplementedError, match=reason):
            library.prepare(problem, first)

    packed = Product(64, 96, 128).problem()
    packed.b_layout, packed.ldb = native.BLayout.packed, 0
    refused(packed, "packed")
    mixed = Product(64, 96, 128, "float16").problem()
    mixed.c_type = native.DataType.float32
    refused(mixed, "types")
    refused(Product(64, 96, 128, epilogue="gelu").problem(), "GELU")
    refused(Product(64, 96, 128, epilogue="bias_gelu", dtype="float16").problem(), "GELU")
    refused(Product(64, 96, 128, "float64", epilogue="bias").problem(), "fp64")
    huge = Product(64, 96, 128).problem()
    huge.m = 1 << 33
    refused(huge, "32 bits")
    for empty in ("m", "n", "k"):
        problem = Product(64, 96, 128).problem()
        setattr(problem, empty, 0)
        refused(problem, "empty")


def transposed() -> None:
    """A weight may be read from its transposed copy: after the library's list, never first."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    for product in (
        Product(24, 40, 64, "float16", b_constant=True, pad=8),
        Product(24, 40, 64, batch=2, b_constant=True, epilogue="bias", beta=1.0),
        Product(24, 40, 64, batch=2, b_constant=True, shared="b", trans_a=True),
    ):
        trial = Trial(product, library, lane)
        for scope_all in (False, True):
            found = library.candidates(trial.problem, scope_all=scope_all)
            turned = [candidate.kernel.endswith("/bt") for candidate in found]
            assert turned == sorted(turned), found
            assert any(turned)
            assert not turned[0]
            assert len({candidate.kernel for candidate in found}) == len(found)
        assert turned.count(True) >= 4
        for candidate, needs in zip(found, turned, strict=True):
            kernel = library.prepare(trial.problem, candidate)
            assert kernel.needs_transposed_b == needs
            trial.judge(trial.run(kernel), candidate.full_name)
    for product in (
        Product(24, 40, 64, "float16"),
        Product(24, 40, 64, "float16", b_constant=True, trans_b=True),
    ):
        found = library.candidates(product.problem(), scope_all=True)
        assert found
        assert not any(candidate.kernel.endswith("/bt") for candidate in found)


def explore() -> None:
    """The search is the same for the same seed, finds what can run, and nothing that is known."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    for product in (
        Product(64, 96, 256, "float16", b_constant=True),
        Product(48, 64, 200, epilogue="bias_relu", beta=1.0),
        Product(7, 13, 101, align=2),
    ):
        trial = Trial(product, library, lane)
        problem = trial.problem
        listed = library.candidates(problem)
        known = [(candidate, 0.0) for candidate in listed]
        drawn = library.explore(problem, known, 7, 12)
        assert drawn == library.explore(problem, known, 7, 12)
        assert 0 < len(drawn) <= 12
        assert drawn != library.explore(problem, known, 8, 12) or len(drawn) < 12
        near = library.explore(problem, [(drawn[0], 2.0), (listed[0], 1.0), *known[1:]], 7, 12)
        assert near == library.explore(problem, [(drawn[0], 2.0), (listed[0], 1.0), *known[1:]], 7, 12)
        assert 0 < len(near) <= 12
        names = [candidate.kernel for candidate in listed]
        for found in (drawn, near):
            for candidate in found:
                assert candidate.kernel not in names, "it was known, or comes twice"
                names.append(candidate.kernel)
                trial.check(native.Candidate(LIBRARY, candidate.kernel))
            if found is drawn:
                names = [*(candidate.kernel for candidate in listed), drawn[0].kernel]
        assert library.explore(problem, known, 7, 0) == []
        # Once all is known there is nothing more.
        everything = dict.fromkeys(candidate.kernel for candidate in listed)
        for seed in range(400):
            candidates = [(native.Candidate(LIBRARY, kernel), 0.0) for kernel in everything]
            more = library.explore(problem, candidates, seed, 400)
            assert not everything.keys() & {candidate.kernel for candidate in more}
            everything.update(dict.fromkeys(candidate.kernel for candidate in more))
            if not more or len(everything) > 2000:
                break
    if product.b_constant:
        assert any(kernel.endswith("/bt") for kernel in everything)


def workspace() -> None:
    """A queue with too small a workspace gets another kernel, not an error."""
    library = open_library()
    roomy, bare, small = library.lane(WORKSPACE), library.lane(0), library.lane(4096)
    product = Product(16, 16, 2048, epilogue="bias")
    trial = Trial(product, library, roomy)
    candidates = library.candidates(trial.problem, scope_all=True)
    candidates += library.explore(trial.problem, [(c, 0.0) for c in candidates], 3, 60)
    needy = [candidate for candidate in candidates if candidate.workspace_bytes > 4096]
    assert needy, "no kernel of the simulation needs a workspace"
    for candidate in needy:
        kernel = library.prepare(trial.problem, candidate)
        for lane in (roomy, bare, small, bare, roomy):
            trial.judge(trial.run(kernel, lane), candidate.full_name)
    before = count("heuristics")
    for lane in (bare, small):
        trial.run(kernel, lane)
    assert count("heuristics") == before, "what fits is asked for again"


def concurrency() -> None:
    """One plan, many threads, each with a bias and a C of its own, on one stream or on several."""
    library = open_library()
    product = Product(32, 48, 64, epilogue="bias")
    lanes = [library.lane(WORKSPACE) for _ in range(6)]
    trial = Trial(product, library, lanes[0])
    (first, *_) = library.candidates(trial.problem)
    kernel = library.prepare(trial.problem, first)
    biases = [np.full(product.n, 100.0 * i, np.float32) for i in range(len(lanes))]
    device_biases = [trial.upload(bias) for bias in biases]
    plain = (trial.a @ trial.b)[0]
    for shared in (False, True):
        cs = [trial.upload(np.zeros((product.m, product.n), np.float32)) for _ in lanes]
        kernel.hammer(
            [lanes[0]] * len(lanes) if shared else lanes,
            trial.device_a,
            trial.device_b,
            device_biases,
            cs,
            200,
        )
        for bias, device_c in zip(biases, cs, strict=True):
            c = np.zeros((product.m, product.n), np.float32)
            device_c.read(c)
            assert np.allclose(c, plain + bias, rtol=0, atol=1e-3)
    assert count("misuse") == 0
    assert count("handles") <= len(lanes) + 2  # one for questions on each card


def shared_stream() -> None:
    """Calls of several threads on one stream do not use its workspace between each other's kernels."""
    library = open_library()
    lanes = [library.lane(WORKSPACE) for _ in range(4)]
    trial = Trial(Product(16, 16, 2048), library, lanes[0])
    candidates = library.candidates(trial.problem, scope_all=True)
    candidates += library.explore(trial.problem, [(c, 0.0) for c in candidates], 3, 60)
    kernel = library.prepare(trial.problem, next(c for c in candidates if c.workspace_bytes > 0))
    set_faults("slow_launch")
    for used in (lanes, lanes[:1] * len(lanes)):
        cs = [trial.upload(trial.start()) for _ in used]
        kernel.hammer(used, trial.device_a, trial.device_b, [trial.device_bias] * len(used), cs, 20)
    set_faults("")
    assert count("misuse") == 0


def hits() -> None:
    """A call makes no descriptor and asks nothing."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    for epilogue in ("none", "bias"):
        trial = Trial(Product(32, 48, 64, epilogue=epilogue), library, lane)
        kernel = library.prepare(trial.problem, library.candidates(trial.problem)[0])
        trial.run(kernel)
        watched = ("descriptors", "heuristics", "algo_checks", "handles", "mallocs")
        trial.judge(trial.run(kernel), "again")
        cs = [trial.upload(trial.start())]
        before = [count(what) for what in watched]
        matmuls = count("matmuls")
        kernel.hammer([lane], trial.device_a, trial.device_b, [trial.device_bias], cs, 50)
        assert [count(what) for what in watched] == before
        assert count("matmuls") == matmuls + 50
    del kernel, trial
    assert count("descriptors") >= count("descriptors_destroyed")


def captured() -> None:
    """A graph holds the product; a handle cannot be made meanwhile, and is not."""
    library = open_library()
    trial = Trial(Product(32, 48, 64), library, library.lane(WORKSPACE))
    for candidate in library.candidates(trial.problem)[:3]:
        kernel = library.prepare(trial.problem, candidate)
        lane = library.lane(WORKSPACE)
        device_c = trial.upload(trial.start())

        def judge(device_c: native.CardArray = device_c, name: str = candidate.full_name) -> None:
            flat = trial.start()
            device_c.read(flat)
            trial.judge(flat, f"{name} from a graph")

        operands = (trial.device_a, trial.device_b, device_c)
        handles = count("handles")
        with capture(lane, lambda: None), pytest.raises(OSError, match="graph"):
            kernel.enqueue(lane, *operands)
        assert count("handles") == handles
        trial.run(kernel, lane)
        watched = count("handles"), count("mallocs")
        with capture(lane, judge):
            kernel.enqueue(lane, *operands)
            assert (count("handles"), count("mallocs")) == watched
    assert count("misuse") == 0


def misuse() -> None:
    """Calls that a provider should not make, and errors of the library, are values."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(32, 48, 64, epilogue="bias"), library, lane)
    (first, *_) = library.candidates(trial.problem)
    kernel = library.prepare(trial.problem, first)
    device_c = trial.upload(trial.start())

    def fails(kind: type[Exception], words: str, bias: native.CardArray | None) -> None:
        with pytest.raises(kind, match=words):
            kernel.run(lane, trial.device_a, trial.device_b, device_c, bias=bias)

    fails(ValueError, "missing", None)
    with pytest.raises(ValueError, match="queue"):
        kernel.run_without_queue()
    set_faults("execution_failed")
    fails(Exception, "EXECUTION_FAILED", trial.device_bias)
    set_faults("not_supported")
    fails(NotImplementedError, "NOT_SUPPORTED", trial.device_bias)
    set_faults("heuristic_fails")
    assert library.candidates(trial.problem) == []
    set_faults("")
    trial.judge(trial.run(kernel), "after faults")


def reductions() -> None:
    """Partial sums in 16 bits: neither proposed nor found nor made of a name. In fp32 they are fine."""
    assert not is_hip()
    library = open_library()
    schemes: dict[str, set[int]] = {}
    for dtype in ("float16", "float32"):
        problem = Product(16, 16, 2048, dtype).problem()
        found = library.candidates(problem, scope_all=True)
        found += library.explore(problem, [(c, 0.0) for c in found], 5, 200)
        schemes[dtype] = {int(c.kernel.split(".r")[1].split(".")[0]) for c in found}
        if dtype == "float32":
            inside = next(c for c in found if ".r4." in c.kernel or ".r1." in c.kernel)
    assert schemes["float16"] <= {0, 2}, schemes
    assert 2 in schemes["float16"], schemes
    assert schemes["float32"] & {1, 4}, schemes
    half = Product(16, 16, 2048, "float16").problem()
    with pytest.raises((NotImplementedError, FileNotFoundError)):
        library.prepare(half, native.Candidate(LIBRARY, inside.kernel))


def moved_index() -> None:
    """After an upgrade a kernel is found by its name, whatever its index is by then."""
    assert is_hip()
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(64, 96, 128, "float16"), library, lane)
    found = library.candidates(trial.problem)
    assert len({candidate.opaque_id for candidate in found}) == len(found)
    assert not any(candidate.kernel.startswith("index:") for candidate in found)
    for candidate, other in zip(found, [*found[1:], found[0]], strict=True):
        moved = native.Candidate(LIBRARY, candidate.kernel)
        for index in (other.opaque_id, -1, 123456789):
            moved.opaque_id = index
            before = count(f"kernels:{candidate.opaque_id}")
            trial.check(moved)
            assert count(f"kernels:{candidate.opaque_id}") == before + 1, (candidate, moved.opaque_id)


def attribute_clash() -> None:
    """Nothing is set that means another thing in ROCm 6."""
    assert is_hip()
    library = open_library()
    lane = library.lane(WORKSPACE)
    for epilogue in ("none", "bias", "bias_relu"):
        checked(library, lane, Product(24, 40, 64, "float16", epilogue=epilogue), most=4)
    assert count("misuse") == 0


def plain_c() -> None:
    """Without the C++ functions: names are indices, from the heuristic's own answers."""
    assert is_hip()
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(64, 96, 128, "float16", epilogue="bias"), library, lane)
    found = library.candidates(trial.problem, scope_all=True)
    assert len(found) > 4
    for candidate in found[:8]:
        assert candidate.kernel == f"index:{candidate.opaque_id}"
        trial.check(native.Candidate(LIBRARY, candidate.kernel))
    assert library.explore(trial.problem, [], 1, 8) == []
    with pytest.raises(FileNotFoundError):
        library.prepare(trial.problem, native.Candidate(LIBRARY, "index:123456789"))


def no_search() -> None:
    """Without what a search needs, the library's own list is all there is, and works."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    trial = Trial(Product(64, 96, 128, "float16", epilogue="bias"), library, lane)
    found = library.candidates(trial.problem, scope_all=True)
    assert len(found) > 4
    for candidate in found:
        trial.check(native.Candidate(LIBRARY, candidate.kernel))
    assert library.explore(trial.problem, [], 1, 8) == []
    assert library.explore(trial.problem, [(found[0], 1.0)], 1, 8) == []
    with pytest.raises(FileNotFoundError):
        library.prepare(trial.problem, native.Candidate(LIBRARY, "6:t1.s1.k1.r0.w0.c0.i0.u0"))


def unavailable() -> None:
    """The library cannot serve this card: prints why, which is known at once or at its first use."""

    def use() -> None:
        library = open_library()
        problem = Product(64, 96, 128).problem()
        assert library.candidates(problem, scope_all=True) == []
        assert library.explore(problem, [], 1, 8) == []
        library.prepare(problem, native.Candidate(LIBRARY, "any"))

    with pytest.raises(NotImplementedError) as refused:
        use()
    print(refused.value)


def nothing_for_the_card() -> None:
    """cublasLt is not asked before the first GEMM; then it has none."""
    library = open_library()
    assert library.candidates(Product(64, 96, 128).problem(), scope_all=True) == []
    assert count("handles") == 1


def precisions() -> None:
    """Less precise ones are used where they are asked for only."""
    library = open_library()
    lane = library.lane(WORKSPACE)
    product = Product(32, 32, 256)
    errors = {}
    for precision in ("exact", "tf32", "bf16"):
        trial = Trial(replace(product, precision=precision), library, lane)
        found = library.candidates(trial.problem)
        if not found:
            assert precision != "exact"
            continue
        got = trial.run(library.prepare(trial.problem, found[0])).reshape(product.m, product.n)
        errors[precision] = float(np.abs(got - trial.expected[0][0]).max())
    assert errors["exact"] < 1e-4, errors
    for precision in errors.keys() - {"exact"}:
        assert errors[precision] > 10 * errors["exact"], errors


if __name__ == "__main__":
    LIBRARY = sys.argv[1]
    globals()[sys.argv[2]]()
