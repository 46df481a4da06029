"""A server under a mixed load for a long time: do memory, files and threads stay flat?

    python -m benchmarks.serve_soak [--minutes 20] [--rate 10] [--largest 512] [--check] [--json FILE]

`tunableop serve` in a process of its own, with two models of two layers and a small cache, is asked `--rate`
times a second on average, one thing after the other: JSON, binary and gRPC requests of m rows (m from 1 to
`--largest`, with a chance that falls as 1 / m, so that there is always something to measure in the
background), streams, eight requests at a time, wrong ones of every kind, clients that are gone before, in
or after their request, calls that are cancelled, a model that is loaded anew and unloaded, and looks at
/metrics. Every answer that should be right is compared with numpy.

Resident memory, open files and threads of the server are judged over what follows the first 15 % of the time:
memory, which goes up and down by some MB as it is handed back every ten seconds, is
flat when its Theil-Sen slope is below `--max-slope` MB in ten minutes, or what it would make over that time
is below `--max-growth` of what there was; files and threads must not grow (median of the last quarter against
the first). At the end nothing may be in flight, and the server must end with exit code 0.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks import common, flat
from benchmarks.flat import Verdict, judge, process_status, thinned
from benchmarks.serve_clients import NET, OTHER, Clients
from benchmarks.small_models import Perceptron, perceptron

SIZES = (256, 512, 128)
# What a short time sees measured: problems repay it soon, and no budget ends. With ranges of m there are few,
# since each that is measured keeps some memory.
TUNING = ("max_tuning_ms=5", "max_session_ms=0", "max_day_ms=0", "buckets=pow2")
WARM_UP = 0.15  # of the time
IDLE = ("tunableop_in_flight", "tunableop_places", "tunableop_model_waiting", "tunableop_model_running")


@dataclass(frozen=True)
class Sample:
    """The server at one moment."""

    seconds: float
    requests: int
    rss_mb: float
    files: int
    threads: int
    entries: float  #: problems that the cache of the first model knows
    tuned: float  #: problems measured
    cpu_seconds: float


@dataclass
class Server:
    """A process that serves."""

    process: subprocess.Popen[str]
    http: str
    grpc: str

    def metrics(self) -> dict[str, float]:
        """Sums over labels; those of the tuner only of the first model."""
        found: dict[str, float] = {}
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                name, _, value = line.rpartition(" ")
                series, _, labels = name.partition("{")
                if series.startswith("#") or ("tuner" in series and f'model="{NET}"' not in labels):
                    continue
                found[series] = found.get(series, 0.0) + float(value)
        return found

    def sample(self, start: float, requests: int) -> Sample:
        """The state now."""
        numbers = self.metrics()
        status = process_status(self.process.pid)
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return Sample(
            seconds=time.perf_counter() - start,
            requests=requests,
            rss_mb=status["VmRSS"] / 1024,
            files=sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir()),
            threads=status["Threads"],
            entries=numbers.get("tunableop_tuner_entries", 0.0),
            tuned=numbers.get("tunableop_tuner_tuned_total", 0.0),
            cpu_seconds=(int(times[11]) + int(times[12])) / 100,
        )


@contextlib.contextmanager
def serving(net: Perceptron, folder: Path, options: Sequence[str]) -> Iterator[Server]:
    """Two models of `net` in a server that is ready; it is ended by force after the block if need be."""
    for name in (NET, OTHER):
        (folder / "models" / name / "1").mkdir(parents=True)
        onnx.save(net.model(), str(folder / "models" / name / "1" / "model.onnx"))
    command = [
        sys.executable,
        "-m",
        "onnxruntime_ep_tunableop",
        "serve",
        "--repository",
        str(folder / "models"),
    ]
    command += ["--state", str(folder / "state"), "--http-port", "0", "--grpc-port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the server ended with {process.wait()} before it served")
        ports = json.loads(line)
        server = Server(process, f"127.0.0.1:{ports['http_port']}", f"127.0.0.1:{ports['grpc_port']}")
        while server.metrics()["tunableop_ready"] < 1.0:
            time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def soak(args: argparse.Namespace) -> tuple[list[Sample], dict[str, Any]]:
    """The samples, and what else there is to say."""
    net = perceptron(SIZES)
    options = ["--threads", "1", "--save-every", "5"]
    for option in (f"cache_size={args.cache_size}", *TUNING):
        options += ["--option", option]
    options += ["--access-log", "off", "--max-body-mib", "4"]
    with tempfile.TemporaryDirectory() as folder, serving(net, Path(folder), options) as server:
        clients = Clients(server.http, server.grpc, net, args.largest, seed=1)
        samples = _load(args, server, clients)
        clients.close()
        left = _left(server)
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(timeout=60)
        saved = (Path(folder) / "state" / f"{NET}.tune.json").exists()
    wrong = [*clients.wrong, *left]
    if code != 0:
        wrong.append(f"the server ended with {code}")
    if not saved:
        wrong.append("there is no cache")
    return samples, {"done": dict(clients.done), "wrong": wrong}


def _load(args: argparse.Namespace, server: Server, clients: Clients) -> list[Sample]:
    interval = min(10.0, args.minutes * 60 / 40)
    gaps = random.Random(2)
    samples: list[Sample] = []
    clients.every()
    start = arrival = due = time.perf_counter()
    end = start + args.minutes * 60
    while (now := time.perf_counter()) < end and server.process.poll() is None:
        if now >= due:
            samples.append(server.sample(start, sum(clients.done.values())))
            due += interval
        arrival = max(arrival + gaps.expovariate(args.rate), now - 1.0)  # it does not hurry for ever
        time.sleep(max(0.0, arrival - now))
        clients.act()
    if server.process.poll() is not None:
        raise SystemExit(f"the server ended with {server.process.poll()} under load")
    samples.append(server.sample(start, sum(clients.done.values())))
    return samples


def _left(server: Server) -> list[str]:
    """What is in flight although nobody asks any more."""
    end = time.monotonic() + 30
    while True:
        numbers = server.metrics()
        left = [f"{name} is {numbers[name]:g}" for name in IDLE if numbers.get(name)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def report(samples: Sequence[Sample], answers: dict[str, Any], verdict: Verdict) -> str:
    """For a person: some twenty of the samples, and what they come to."""
    header = ("seconds", "requests", "RSS MB", "files", "threads", "entries", "tuned", "cpu s")
    rows = [
        (
            f"{sample.seconds:.0f}",
            sample.requests,
            f"{sample.rss_mb:.1f}",
            sample.files,
            sample.threads,
            f"{sample.entries:g}",
            f"{sample.tuned:g}",
            f"{sample.cpu_seconds:.0f}",
        )
        for sample in [*thinned(samples[:-1], 20), samples[-1]]
    ]
    done = ", ".join(f"{name} {number}" for name, number in sorted(answers["done"].items()))
    return "\n".join(
        [
            common.table(header, rows),
            "",
            f"{sum(answers['done'].values())} times: {done}; wrong: {len(answers['wrong'])}",
            str(verdict),
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 for a wrong answer or a bound missed."""
    parser = argparse.ArgumentParser(description="A server under a mixed load for a long time.")
    parser.add_argument("--minutes", type=float, default=20, help="how long (20)")
    parser.add_argument("--rate", type=float, default=10, help="acts of clients a second (10)")
    parser.add_argument("--largest", type=int, default=512, help="rows of a request at most (512)")
    parser.add_argument("--cache-size", type=int, default=64, help="problems that each cache holds (64)")
    flat.add_arguments(parser)
    args = parser.parse_args(arguments)
    if not args.minutes > 0 or args.largest < 1 or not args.rate > 0:
        parser.error("--minutes, --rate and --largest must be above 0")
    print(common.machine_line(), end="\n\n")
    samples, answers = soak(args)
    verdict = judge(samples, WARM_UP)
    print(report(samples, answers, verdict))
    return flat.conclude("serve_soak", args, samples, answers, verdict, answers["wrong"][:10])


if __name__ == "__main__":
    sys.exit(main())
