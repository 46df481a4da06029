"""Compare single GEMM kernels with the stock CPU execution provider, shape by shape.

    python -m benchmarks.kernels [--threads 1 2] [--filter TEXT] [--all] [--seconds 2]

For each shape of ``shapes.csv``: a stock ONNX Runtime session of one MatMul node, the default native
kernel and every candidate, called in turn inside one process, so that whatever else the machine does
hits all of them alike. The figure of each is its minimum over the rounds. Stock's figure for small
shapes is the cost of one more node in a graph (17 nodes less 1 node, over 16), so that neither Python nor
``Run`` is counted. Every turn starts with untimed calls, because whoever ran before left its own operands
in the caches. With ``--cpu-time`` the figures of large shapes on one thread are medians of the calling
thread's processor time, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from benchmarks import native
from benchmarks.common import SHAPES, Shape, cpu_model, geomean, read_shapes

_core = native.load()

# Below this a call of a whole session costs more than the product in it.
SMALL_FLOPS = 5e7


@dataclass(frozen=True)
class Row:
    """What was measured for one shape, in microseconds."""

    shape: Shape
    stock: float
    default: float
    best: float
    default_kernel: str
    best_kernel: str


def problem_of(shape: Shape, threads: int) -> Any:
    """The Problem of a shape: a weight is packed, anything else is read as it is."""
    problem = _core.Problem()
    problem.m, problem.n, problem.k, problem.batch = shape.m, shape.n, shape.k, shape.batch
    problem.lda, problem.ldc = shape.k, shape.n
    problem.stride_a = shape.m * shape.k if shape.batch > 1 else 0
    problem.stride_c = shape.m * shape.n if shape.batch > 1 else 0
    problem.align_a = problem.align_b = problem.align_c = 4
    problem.threads = threads
    if shape.constant_b:
        problem.b_constant = 1
        problem.b_layout = _core.BLayout.packed
    else:
        problem.ldb = shape.n
        problem.stride_b = shape.k * shape.n if shape.batch > 1 else 0
    return problem


def stock_call(shape: Shape, a: np.ndarray, b: np.ndarray, threads: int, nodes: int) -> Callable[[], None]:
    """A graph of MatMul nodes in the stock CPU execution provider, inputs and outputs bound beforehand."""
    c_shape = [shape.batch, shape.m, shape.n]
    inputs = [helper.make_tensor_value_info("a", TensorProto.FLOAT, a.shape)]
    initializers = []
    if shape.constant_b:
        initializers.append(onnx.numpy_helper.from_array(b, "b"))
    else:
        inputs.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, b.shape))
    names = [f"c{i}" for i in range(nodes)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], [name]) for name in names],
        "gemm",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, c_shape) for name in names],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Identical nodes are wanted; there is nothing else to optimise.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("a", ort.OrtValue.ortvalue_from_numpy(a))
    if not shape.constant_b:
        binding.bind_ortvalue_input("b", ort.OrtValue.ortvalue_from_numpy(b))
    output = ort.OrtValue.ortvalue_from_numpy(np.zeros(c_shape, np.float32))
    for name in names:
        binding.bind_ortvalue_output(name, output)
    run_options = ort.RunOptions()
    return lambda: session.run_with_iobinding(binding, run_options)


def stock_timer(
    shape: Shape, a: np.ndarray, b: np.ndarray, threads: int, clock: Callable[[], float]
) -> Callable[[], list[float]]:
    """A function that runs stock a few times and returns the seconds that one product took each time."""
    small = shape.flops < SMALL_FLOPS
    counts = (17, 1) if small else (1,)
    calls = [stock_call(shape, a, b, threads, nodes) for nodes in counts]

    def seconds(call: Callable[[], None]) -> float:
        start = clock()
        call()
        return clock() - start

    def run() -> list[float]:
        for _ in range(warmups(shape)):
            calls[0]()
        if not small:
            return [seconds(calls[0]) for _ in range(2)]
        # The least of some runs each: their difference must not be noise.
        many, one = (min(seconds(call) for _ in range(20)) for call in calls)
        return [(many - one) / (max(counts) - min(counts))]

    return run


def warmups(shape: Shape) -> int:
    """Untimed calls per turn: a large B takes several to settle in the last-level cache."""
    return 4 if shape.k * shape.n > 1_000_000 and shape.flops < 1e9 else 1


def measure(
    shape: Shape, threads: int, seconds: float, scope_all: bool, only: str | None, cpu_time: bool
) -> Row:
    """Race stock, the default and the candidates: first a knock-out, then rounds of the finalists."""
    rng = np.random.default_rng(0)
    lead = (shape.batch,) if shape.batch > 1 else ()
    a = rng.standard_normal((*lead, shape.m, shape.k), dtype=np.float32)
    b = rng.standard_normal((() if shape.constant_b else lead) + (shape.k, shape.n), dtype=np.float32)
    c = np.zeros((*lead, shape.m, shape.n), np.float32)
    clock = time.thread_time if cpu_time and threads == 1 else time.perf_counter
    stock = stock_timer(shape, a if a.ndim == 3 else a[None], b, threads, clock)
    problem = problem_of(shape, threads)
    operand_b = _core.pack_b(b) if shape.constant_b else b
    candidates = _core.candidates(problem, scope_all)
    default = candidates[0]
    if only is not None:
        candidates = [default, *(x for x in candidates[1:] if only in x.full_name)]

    # Small shapes are repeated, so that a figure is not dominated by the clock.
    repeat = max(1, int(50e-6 / (shape.flops / 150e9 / threads + 1e-7)))

    def once(candidate: Any) -> list[float]:
        arguments = {"threads": threads, "repeat": repeat}
        _core.time_kernel(problem, candidate, a, operand_b, c, iterations=warmups(shape), **arguments)
        if shape.flops < SMALL_FLOPS:
            return [min(_core.time_kernel(problem, candidate, a, operand_b, c, iterations=20, **arguments))]
        if clock is time.perf_counter:
            return list(_core.time_kernel(problem, candidate, a, operand_b, c, iterations=2, **arguments))
        start = clock()
        _core.time_kernel(problem, candidate, a, operand_b, c, iterations=2, **arguments)
        return [(clock() - start) / repeat / 2]

    figure = min if clock is time.perf_counter else statistics.median
    stock()
    first = {x.full_name: min(once(x)) for x in candidates}
    finalists = [default, *sorted(candidates[1:], key=lambda x: first[x.full_name])[:5]]
    samples: dict[str, list[float]] = {x.full_name: [] for x in finalists}
    stock_samples: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(stock_samples) < 5 or time.perf_counter() < deadline:
        stock_samples += stock()
        finalists.append(finalists.pop(0))  # the turn after stock's is nobody's in particular
        for x in finalists:
            samples[x.full_name] += once(x)
    best_stock = figure(stock_samples)
    times = {name: figure(values) for name, values in samples.items()}
    winner = min(times, key=times.__getitem__)
    return Row(
        shape,
        best_stock * 1e6,
        times[default.full_name] * 1e6,
        times[winner] * 1e6,
        default.full_name,
        winner,
    )


def report(rows: list[Row], threads: int) -> None:
    """Print the summary of one thread count."""
    best = [row.stock / row.best for row in rows]
    default = [row.stock / row.default for row in rows]
    gap = [row.default / row.best for row in rows]
    print(
        f"threads {threads}: stock/best geomean {geomean(best):.3f}, worst {min(best):.3f}; "
        f"stock/default geomean {geomean(default):.3f}, worst {min(default):.3f}; "
        f"default/best geomean {geomean(gap):.3f}, worst {max(gap):.3f}",
        flush=True,
    )


def main() -> int:
    """Measure the shapes asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=Path, default=SHAPES)
    parser.add_argument("--filter", default="", help="only shapes whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0, help="time of the final race of a shape")
    parser.add_argument("--all", action="store_true", help="every candidate, not only the first few")
    parser.add_argument("--only", help="only candidates whose name contains this, and the default")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, where one thread runs")
    parser.add_argument("--openblas", help="folder or file of OpenBLAS")
    args = parser.parse_args()
    if args.openblas:
        _core.set_openblas_search_path(args.openblas)

    print(f"{cpu_model()}; {platform.platform()}; onnxruntime {ort.__version__}; numpy {np.__version__}")
    for library in _core.libraries():
        print(f"{library['library']}: {library['identity'] or library['reason']}")
    for threads in args.threads:
        rows = []
        print(f"{'shape':24} {'stock us':>10} {'default':>10} {'best':>10} {'s/d':>6} {'s/b':>6} {'d/b':>6}")
        for shape in read_shapes(args.shapes):
            if args.filter not in shape.name:
                continue
            row = measure(shape, threads, args.seconds, args.all, args.only, args.cpu_time)
            rows.append(row)
            print(
                f"{shape.name:24} {row.stock:10.1f} {row.default:10.1f} {row.best:10.1f} "
                f"{row.stock / row.default:6.3f} {row.stock / row.best:6.3f} {row.default / row.best:6.3f} "
                f"{shape.flops / row.best / 1e3:5.0f}  {row.default_kernel} | {row.best_kernel}",
                flush=True,
            )
        report(rows, threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
