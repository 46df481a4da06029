"""The engine's memory does not grow with the requests it served."""

from __future__ import annotations

import sys

import pytest
from support.process import run_python

SERVE = """
import asyncio, gc, resource, tempfile, time
from pathlib import Path
from onnxruntime_ep_tunableop.serve.protocol import ProtocolError
from onnxruntime_ep_tunableop.serve.settings import ModelSettings
from support.serving import plus, request, run_async, save, serving, settings

PAGE = resource.getpagesize()
X = np.zeros((64, 2048), np.float32)  # half a MiB in, and out

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20

async def client(engine, number, times):
    for turn in range(times):
        how = (number + turn) % 5
        feeds = {"x": X[:, :2047] if how == 1 else X}
        deadline = time.monotonic() + 1e-4 if how == 2 else None
        task = asyncio.ensure_future(engine.infer(request("m", feeds, deadline=deadline)))
        if how == 3:
            await asyncio.sleep(0)
            task.cancel()
        try:
            await task
        except (ProtocolError, asyncio.CancelledError):
            pass

async def main():
    folder = Path(tempfile.mkdtemp())
    path = save(folder, "m", plus(1.0, ("n", 2048)))
    told = settings(folder, ModelSettings("m", path, threads=1, max_batch=256), save_every=0.05)
    async with serving(told) as engine:
        async def load(times):
            await asyncio.gather(*(client(engine, number, times) for number in range(8)))
        await load(60)
        before = resident()
        await load(300)
        grown = resident() - before
        assert engine.counters()["m", "1"].requests["ok"] > 600
        print(grown)

run_async(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_memory_stays_flat_under_a_mixed_load() -> None:
    """2400 requests of half a MiB: one in a hundred kept would be seen."""
    done = run_python(SERVE)
    assert float(done.stdout) < 24.0, f"{done.stdout} MiB more"
