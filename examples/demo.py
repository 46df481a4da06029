"""A real model, from nothing to tuned: `python examples/demo.py` (or `make demo`), about a minute.

Builds all-MiniLM-L6-v2, encodes sentences with its products on the TunableOp provider, compares results
and speed with stock ONNX Runtime, saves what was learned, and shows that a second process starts with it.
Exits with 1 when anything is not as it should be.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the folders models and benchmarks

import onnxruntime_ep_tunableop as tunableop

from benchmarks import common
from benchmarks.measure import Plan, interleave
from models import minilm
from models.fetch import FetchError
from models.graph import save
from models.progress import track

SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The new movie is awesome.",
    "I really enjoyed that film, and would watch it again with my family next weekend.",
    "Shares fell sharply on Monday after the central bank surprised investors with a higher interest rate.",
    "The stock market dropped.",
    "How do I reset my password?",
    "I have forgotten my login details and need to choose new ones; where in the settings is that done?",
]
TOLERANCE = 1e-4  # of an embedding of length 1
Encoder = Callable[[], NDArray[np.float32]]


class DemoError(RuntimeError):
    """Something is not as it should be."""


def check(condition: bool, message: str) -> None:
    """Raises DemoError with `message` unless `condition`."""
    if not condition:
        raise DemoError(message)


def feeds() -> list[common.Feed]:
    """One batch of one sentence each, so that there are as many shapes as lengths."""
    tokens = minilm.tokenizer()
    return [minilm.feed(tokens, [sentence]) for sentence in SENTENCES]


def encode(session: ort.InferenceSession, inputs: list[common.Feed]) -> NDArray[np.float32]:
    """The embeddings [number of sentences, 384]."""
    return np.concatenate([session.run(["sentence_embedding"], one)[0] for one in inputs])


def open_session(model: Path, cache: Path, threads: int) -> ort.InferenceSession:
    """The session under demonstration: what tuning learned before is in `cache`, if that exists."""
    tunableop.register()
    options = common.session_options(threads)
    return tunableop.InferenceSession(str(model), sess_options=options, cache=str(cache), tuning="online")


def first(model: Path, cache: Path, threads: int) -> None:
    """The first process: tunes, compares, saves."""
    cache.unlink(missing_ok=True)  # from an earlier demonstration
    print("building all-MiniLM-L6-v2 (the first time its weights are downloaded, 84 MB)")
    model.parent.mkdir(parents=True, exist_ok=True)
    save(minilm.build(), model)
    inputs = feeds()
    stock = ort.InferenceSession(
        str(model), common.session_options(threads), providers=["CPUExecutionProvider"]
    )
    session = open_session(model, cache, threads)

    start = time.perf_counter()
    for one in track(inputs, "encoding, and tuning each new shape"):
        session.run(None, one)
    stats = tunableop.stats(session)
    print(f"first pass over {len(inputs)} sentences: {time.perf_counter() - start:.1f} s, of which", end=" ")
    print(f"{stats.tuning_seconds:.1f} s tuned {stats.tuned} shapes")
    check(stats.tuned > 0, "nothing was tuned")

    print("\nnodes by provider")
    for (provider, operator), count in sorted(common.assignment(session).items()):
        if provider == common.OUR_PROVIDER:
            print(f"  {provider}  {operator} x {count}")
    ours = common.our_nodes(session)
    print(f"  CPUExecutionProvider  {sum(common.assignment(session).values()) - ours} others")
    check(ours > 0, "our provider runs no node")
    print("\nkernels chosen, and for how many shapes")
    for kernel, count in common.kernels(session).most_common(8):
        print(f"  {count:4}  {kernel}")

    embeddings, expected = encode(session, inputs), encode(stock, inputs)
    print("\nhow similar the sentences are (cosine)\n")
    rows = [
        [str(i + 1), *(f"{x:.2f}" for x in row), SENTENCES[i]]
        for i, row in enumerate(embeddings @ embeddings.T)
    ]
    for number, *cells, sentence in rows:
        print(f"  {number}  {'  '.join(cell.rjust(5) for cell in cells)}  {sentence}")
    off = float(np.abs(embeddings - expected).max())
    print(f"\nlargest difference from stock: {off:.1e} (embeddings have length 1; allowed {TOLERANCE:.0e})")
    check(off <= TOLERANCE, "the results differ from stock ONNX Runtime's")

    calls: dict[str, Encoder] = {
        "stock": lambda: encode(stock, inputs),
        "ours": lambda: encode(session, inputs),
    }
    timed = interleave(calls, Plan(rounds=11, block=0.1, warm_up=0.02))
    ratio = timed.ratio("stock", "ours")
    print(f"all {len(inputs)} sentences: stock {timed.median('stock') * 1e3:.1f} ms, ours", end=" ")
    print(f"{timed.median('ours') * 1e3:.1f} ms: {ratio.value:.3f} times as fast as stock", end=" ")
    print(f"(median of {len(timed.order)} rounds in turns, quartiles {ratio.low:.3f}-{ratio.high:.3f})")

    tunableop.save_cache(session, str(cache))
    check(cache.exists(), f"no cache was written to {cache}")
    print(f"\nsaved {cache.name}; a second process:")


def second(model: Path, cache: Path, threads: int) -> None:
    """The second process: has to know everything already."""
    check(model.exists() and cache.exists(), f"{model.parent} holds no model and cache: run without --second")
    session = open_session(model, cache, threads)
    start = time.perf_counter()
    encode(session, feeds())
    seconds = time.perf_counter() - start
    stats = tunableop.stats(session)
    looked_up = stats.hits + stats.misses
    share = 100 * stats.hits // looked_up if looked_up else 0
    print(f"  first pass {seconds:.2f} s: {stats.tuned} shapes tuned, {share} % hits", flush=True)
    check(stats.tuned == 0, "the second process tuned again: the cache was not used")
    check(looked_up > 0 and stats.misses == 0, "the second process met shapes that the cache does not know")


def main() -> int:
    """Runs the demonstration; returns the exit status."""
    parser = argparse.ArgumentParser(description="all-MiniLM-L6-v2 on the TunableOp provider.")
    folder = Path(__file__).resolve().parent.parent / ".cache" / "demo"
    parser.add_argument(
        "--folder", type=Path, default=folder, help="for model and cache (default: .cache/demo)"
    )
    parser.add_argument(
        "--threads", type=int, default=int(common.machine()["cores"]), help="default: all cores"
    )
    parser.add_argument(
        "--second", action="store_true", help="only the second process: load the cache and run"
    )
    args = parser.parse_args()
    files = (args.folder / "minilm.onnx", args.folder / "minilm.tune.json")
    try:
        if args.second:
            second(*files, args.threads)
            return 0
        print(common.machine_line(), flush=True)
        first(*files, args.threads)
        sys.stdout.flush()
        again = [sys.executable, __file__, "--second", "--folder", str(args.folder)]
        return subprocess.run([*again, "--threads", str(args.threads)], check=False).returncode
    except (DemoError, FetchError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
