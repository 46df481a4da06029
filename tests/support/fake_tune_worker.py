"""A worker that does what the file "plan" beside the cache says, a list of steps for each worker in turn.

It stands in for the real one where its kernels would have to crash: the journal and the pipe are real.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import tunableop_native_tests as native

job = json.load(sys.stdin)
pipe = int(sys.argv[1])
cache = Path(job["cache"])
(cache.parent / "job.json").write_text(json.dumps(job))
deaths = native.collect_deaths(cache)
with (cache.parent / "deaths").open("a") as file:
    file.writelines(f"{death['library']}:{death['kernel']}\n" for death in deaths)

plan = cache.parent / "plan"
steps, *rest = json.loads(plan.read_text())
plan.write_text(json.dumps(rest or [steps]))

problem = native.Problem()
problem.m, problem.n, problem.k = 1, 2, 3
journal = native.CrashJournal(cache)
journal.begin(problem, [native.Candidate("native", name) for name in ("first", "second")])


def tell(**event: Any) -> None:
    os.write(pipe, json.dumps(event).encode() + b"\n")


tuned = 0
for step in steps:
    if step == "tune":
        tuned += 1
        line = f"tuned problem {tuned}"
        tell(event="progress", tuned=tuned, pending=5 - tuned, seconds=tuned / 10, line=line)
    elif step == "enter":
        journal.enter(1)
    elif step == "leave":
        journal.leave()
    elif step == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif step == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif step == "exit":
        ctypes.CDLL(None).exit(3)
    elif step == "hang":
        time.sleep(1000)
    elif step == "slow":  # many calls, each shorter than a hang
        for _ in range(10):
            journal.enter(1)
            time.sleep(0.1)
            journal.leave()
    elif step == "noise":
        print("libraries print", flush=True)
        print("what they like", file=sys.stderr, flush=True)
    elif step == "error":
        tell(event="error", type="OptionError", message="shapes: wrong")
        sys.exit(1)
tell(event="done", tuned=tuned, seconds=tuned / 10, denied=0)
