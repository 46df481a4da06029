"""`tunableop serve` with MiniLM, on our provider and on the stock one: under load, and when it is fresh.

    python -m benchmarks.serve [--requests mix,128] [--protocols rest,grpc] [--concurrency 1,16,64]
                               [--rounds 6] [--ours ARGUMENTS] [--both ARGUMENTS] [--quick] [--json FILE]
    python -m benchmarks.serve --first-request [--samples 20] ...

Load: both servers live all the time and take turns, in an order drawn anew for each round; only the one whose
block it is gets requests, and a block begins when both are idle. A request is one sentence, of a length from
a fixed mix ("mix") or of 128 tokens ("128"), and asks for the sentence's embedding. `concurrency` callers ask
again as soon as they have an answer, over REST with binary tensors or gRPC. Before all that, ours gets
requests until nothing waits to be measured in the background, or for `--settle` seconds. Columns: requests a
second; milliseconds of a request, median and 99th percentile of all rounds together; stock's median of a
round over ours, with its 95 % bootstrap interval (above 1: ours is faster); milliseconds of processor time
that the server and the client took for a request (the client shares the machine); the share of products that
ran what was measured; requests that failed.

`--first-request`: fresh servers instead, in turns. "cached" knows what an earlier one measured, "empty" knows
nothing and measures in the background. Milliseconds of the first request once the server is ready, and of the
second; seconds from the process' start until it is ready, and until the first answer.

The exit code is 1 where a request failed, or an answer differs from stock's by more than TOLERANCE.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import shlex
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime_ep_tunableop.bench.figures import percentile

from benchmarks import common
from benchmarks.measure import bootstrap_ratio
from benchmarks.serve_client import PROTOCOLS, Feed, embedding, rest_request
from benchmarks.serve_process import Client, Server, client, learn, server
from benchmarks.serve_report import first_table, line, table, wrong
from models import minilm
from models.graph import save

SIDES: Mapping[str, tuple[str, ...]] = {"stock": ("--stock",), "ours": ()}
FRESH = ("stock", "empty", "cached")
KINDS = ("mix", "128")
TOKENS = 128
_SEED = 6
#: Tokens of a sentence: log-normal, half of them below the median; the longest are what the model takes.
_MEDIAN_TOKENS, _SPREAD, _FEWEST = 24, 0.7, 4
#: Of a block, by concurrency: with more callers a request takes longer, and a block needs many.
_SECONDS = {1: 1.5, 16: 1.5, 64: 2.5}
_WARM_UP = 0.3  # seconds at least; see serve_client.Load


def mixed_lengths(count: int) -> list[int]:
    """The same ones each time."""
    drawn = np.random.default_rng(_SEED).lognormal(np.log(_MEDIAN_TOKENS), _SPREAD, count)
    return [int(length) for length in np.clip(drawn.round(), _FEWEST, minilm.MAX_TOKENS)]


def make_feeds(mixed: int, fixed: int) -> tuple[list[Feed], dict[str, list[int]]]:
    """The requests, and which of them are of each kind."""
    lengths = [*mixed_lengths(mixed), *[TOKENS] * fixed]
    feeds = [dict(minilm.random_feed(1, length, seed)) for seed, length in enumerate(lengths)]
    return feeds, {"mix": list(range(mixed)), "128": list(range(mixed, mixed + fixed))}


def settle(one: Server, asking: Client, cells: Sequence[Mapping[str, Any]], limit: float) -> dict[str, Any]:
    """Load until nothing waits to be measured any more, or for about `limit` seconds."""
    began = time.perf_counter()
    cells = [cell for cell in cells if cell["protocol"] == cells[0]["protocol"]]
    quiet = 0  # blocks in a row that left nothing to be measured
    for number in itertools.count():
        if quiet == len(cells) or time.perf_counter() > began + limit:
            break
        before = one.tuning()["tuned"]
        block(one, asking, cells[number % len(cells)], min(1.0, limit / len(cells)), seed=number)
        one.wait_until_idle()
        now = one.tuning()
        quiet = quiet + 1 if now["tuned"] == before and not now["pending"] else 0
    known = ("tuned", "pending", "deferred", "entries", "tuning_seconds")
    return {"seconds": time.perf_counter() - began} | {key: one.tuning()[key] for key in known}


def block(one: Server, asking: Client, cell: Mapping[str, Any], seconds: float, seed: int) -> dict[str, Any]:
    """One side's turn."""
    order = {
        "protocol": cell["protocol"],
        "port": one.ports[cell["protocol"]],
        "pid": one.pid,
        "concurrency": cell["concurrency"],
        "seconds": seconds,
        "warm_up": min(_WARM_UP, seconds),
        "requests": cell["feeds"],
        "seed": seed,
    }
    return asking.ask({"load": order})


def measure(
    servers: Mapping[str, Server], asking: Client, cell: Mapping[str, Any], args: Any, shuffler: random.Random
) -> dict[str, Any]:
    """One kind of load on both sides, in turns."""
    seconds = args.seconds or _SECONDS.get(cell["concurrency"], max(_SECONDS.values()))
    blocks: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    orders: list[list[str]] = []
    before = servers["ours"].tuning()
    for number in range(args.rounds):
        order = list(servers)
        shuffler.shuffle(order)
        orders.append(order)
        for name in order:
            for each in servers.values():
                each.wait_until_idle()
            blocks[name].append(block(servers[name], asking, cell, seconds, number))
    after = servers["ours"].tuning()
    calls = {key: after[key] - before[key] for key in ("hits", "misses", "tuned")}
    return _result(cell, blocks, calls) | {"order": orders}


def _result(
    cell: Mapping[str, Any], blocks: Mapping[str, list[dict[str, Any]]], calls: Mapping[str, int]
) -> dict[str, Any]:
    medians: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    sides: dict[str, Any] = {}
    for name, found in blocks.items():
        every = [seconds for one in found for seconds in one["latencies"]]
        errors = [error for one in found for error in one["errors"]]
        if not all(one["latencies"] for one in found):
            raise SystemExit(f"{name}: no answers: {'; '.join(errors[:3])}")
        medians[name] = [statistics.median(one["latencies"]) for one in found]
        rates[name] = [len(one["latencies"]) / one["wall_seconds"] for one in found]
        sides[name] = {
            "requests": len(every),
            "rate": statistics.median(rates[name]),
            "p50": percentile(every, 50.0),
            "p99": percentile(every, 99.0),
            "server_cpu": sum(one["server_cpu_seconds"] for one in found) / len(every),
            "client_cpu": sum(one["client_cpu_seconds"] for one in found) / len(every),
            "errors": errors,
            "compared": sum(one["compared"] for one in found),
            "difference": max(one["difference"] for one in found),
        }
    return {
        "part": "load",
        **{key: cell[key] for key in ("requests", "protocol", "concurrency")},
        "sides": sides,
        "speed_up": vars(bootstrap_ratio(medians["stock"], medians["ours"], paired=True)),
        "rate_ratio": vars(bootstrap_ratio(rates["ours"], rates["stock"], paired=True)),
        "calls": dict(calls),
        "rounds": {
            name: {
                "p50": medians[name],
                "rate": rates[name],
                "p99": [percentile(one["latencies"], 99.0) for one in blocks[name]],
            }
            for name in blocks
        },
    }


def load(args: Any, model: Path, folder: Path) -> list[dict[str, Any]]:
    """Every kind of load."""
    feeds, kinds = make_feeds(*((12, 2) if args.quick else (64, 8)))
    file = folder / "feeds.npz"
    named = {f"{at}/{name}": array for at, feed in enumerate(feeds) for name, array in feed.items()}
    np.savez(file, **dict[str, Any](named))
    cells = [
        {"requests": kind, "feeds": kinds[kind], "protocol": protocol, "concurrency": count}
        for kind in args.requests
        for protocol in args.protocols
        for count in args.concurrency
    ]
    arguments = {"stock": [*SIDES["stock"], *args.both], "ours": [*args.both, *args.ours]}
    with contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(server(model, folder / f"state-{name}", *more))
            for name, more in arguments.items()
        }
        asking = stack.enter_context(client(file))
        for one in servers.values():
            one.wait_until_ready()
        asking.ask({"learn": servers["stock"].ports})
        settled = settle(servers["ours"], asking, cells, args.settle)
        difference = asking.ask({"compare": servers["ours"].ports})["difference"]
        print(
            f"\nafter {settled['seconds']:.0f} s of load {settled['tuned']} problems were measured, "
            f"{settled['pending']} wait, {settled['deferred']} are not worth it yet; "
            f"largest difference of {2 * len(feeds)} answers: {difference:.1e}\n"
        )
        shuffler = random.Random(args.seed)
        results: list[dict[str, Any]] = [{"part": "settled", **settled, "difference": difference}]
        for cell in cells:
            results.append(measure(servers, asking, cell, args, shuffler))
            print(line(results[-1]), flush=True)
        for one in servers.values():
            one.end()
    print("\n" + table(results))
    return results


def first_requests(args: Any, model: Path, folder: Path) -> list[dict[str, Any]]:
    """Fresh servers, in turns."""
    feed = dict(minilm.random_feed(1, TOKENS))
    request = rest_request(feed)
    tuned = folder / "tuned"
    learn(
        model,
        tuned,
        [{name: list(array.shape) for name, array in feed.items()}],
        folder,
        args.both + args.ours,
    )
    shuffler = random.Random(args.seed)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in FRESH}
    right: Any = None
    for number in range(
        -1, args.samples
    ):  # the first turn, in which files come from the disk, is not counted
        order = list(FRESH)
        shuffler.shuffle(order)
        if right is None:
            order.sort(key=lambda name: name != "stock")
        for name in order:
            one = _fresh(name, args, model, folder, tuned, request)
            answer = one.pop("answer")
            right = answer if right is None else right
            one["difference"] = float(np.abs(answer - right).max() / np.abs(right).max())
            if number >= 0:
                found[name].append(one)
    results = []
    for name, samples in found.items():
        steps = {step: [one[step] for one in samples] for step in _STEPS}
        base = {step: [one[step] for one in found["stock"]] for step in _STEPS}
        results.append(
            {
                "part": "first",
                "mode": name,
                "median": {step: statistics.median(values) for step, values in steps.items()},
                "p90": {step: percentile(values, 90.0) for step, values in steps.items()},
                "worst": {step: max(values) for step, values in steps.items()},
                "ratio": {step: vars(bootstrap_ratio(steps[step], base[step])) for step in _STEPS},
                "difference": max(one["difference"] for one in samples),
                "samples": steps,
            }
        )
    print("\n" + first_table(results))
    return results


_STEPS = ("ready", "first", "second", "from_start")


def _fresh(name: str, args: Any, model: Path, folder: Path, tuned: Path, request: bytes) -> dict[str, Any]:
    state = folder / "fresh"
    shutil.rmtree(state, ignore_errors=True)
    if name == "cached":
        shutil.copytree(tuned, state)
    more = [*SIDES["stock"], *args.both] if name == "stock" else [*args.both, *args.ours]
    with server(model, state, *more) as one:
        one.wait_until_ready()
        with socket.create_connection(("127.0.0.1", one.ports["rest"]), timeout=60) as connection:
            began = time.perf_counter()
            answer = _ask(connection, request)
            first = time.perf_counter()
            _ask(connection, request)
            second = time.perf_counter()
    return {
        "ready": one.ready - one.began,
        "first": first - began,
        "second": second - first,
        "from_start": first - one.began,
        "answer": answer,
    }


def _ask(connection: socket.socket, request: bytes) -> Any:
    connection.sendall(request)
    answer = HTTPResponse(connection)
    answer.begin()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {body[:300]!r}")
    head = "".join(f"{key.lower()}: {value}\r\n" for key, value in answer.getheaders())
    return embedding("rest", f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body)


def _arguments(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="A server under load, and a fresh one's first request.")
    parser.add_argument("--first-request", action="store_true", help="of fresh servers, instead of load")
    parser.add_argument(
        "--requests", type=_some(KINDS), metavar="KIND,...", help="default: mix,128, quick mix"
    )
    parser.add_argument(
        "--protocols", type=_some(PROTOCOLS), default=PROTOCOLS, metavar="NAME,...", help="rest, grpc"
    )
    parser.add_argument("--concurrency", type=_counts, metavar="N,...", help="default: 1,16,64, quick 1,4")
    parser.add_argument("--rounds", type=int, help="of each kind of load (default: 6, quick 2)")
    parser.add_argument("--seconds", type=float, help="of a block (default: 1.5 to 2.5, quick 0.3)")
    parser.add_argument("--settle", type=float, help="seconds at most (default: 60, quick 3)")
    parser.add_argument("--samples", type=int, help="fresh servers of each kind (default: 20, quick 2)")
    parser.add_argument("--ours", type=shlex.split, default=[], metavar="ARGUMENTS", help="of our server")
    parser.add_argument("--both", type=shlex.split, default=[], metavar="ARGUMENTS", help="of both servers")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--quick", action="store_true", help="a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    args = parser.parse_args(arguments)
    args.concurrency = args.concurrency or ((1, 4) if args.quick else (1, 16, 64))
    args.requests = args.requests or (("mix",) if args.quick else KINDS)
    args.rounds = args.rounds or (2 if args.quick else 6)
    args.seconds = args.seconds or (0.3 if args.quick else None)
    args.settle = args.settle or (3.0 if args.quick else 60.0)
    args.samples = args.samples or (2 if args.quick else 20)
    return args


def _some(known: Sequence[str]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
        return chosen

    return parse


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(int(part) for part in text.split(","))
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"expected numbers from 1 up, found '{text}'")
    return counts


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    args = _arguments(arguments)
    print(common.machine_line())
    with tempfile.TemporaryDirectory(prefix="serve-") as name:
        folder = Path(name)
        model = folder / "model.onnx"
        save(minilm.build(), model)
        results = (first_requests if args.first_request else load)(args, model, folder)
    common.write_json(args.json, "serve", args, results)
    return 1 if common.complain("WRONG", wrong(results)) else 0


if __name__ == "__main__":
    sys.exit(main())
