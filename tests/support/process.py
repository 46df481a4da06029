"""Python in a process of its own, where a crash is seen as a return code."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

#: What every such script starts with.
PREAMBLE = '''
import sys
sys.path.insert(0, {tests!r})
import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from support.graphs import gemm_model, matmul_model

EP = tunableop.get_ep_name()
A = np.random.default_rng(1).standard_normal((3, 8), dtype=np.float32)
B = np.random.default_rng(2).standard_normal((8, 5), dtype=np.float32)
MODEL = matmul_model(["m", 8], None, constants={{"B": B}})
BYTES = MODEL.SerializeToString()

def right(session, a=A):
    y = session.run(None, {{"A": a}})[0]
    np.testing.assert_allclose(y, a @ B, rtol=1e-5, atol=1e-5)
    return True

def plain(**options):
    """Plain onnxruntime, by device: every version can."""
    settings = ort.SessionOptions()
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP]
    settings.add_provider_for_devices(devices[:1], {{key: str(value) for key, value in options.items()}})
    return ort.InferenceSession(BYTES, settings)

def by_name(**options):
    return ort.InferenceSession(BYTES, providers=[(EP, options), "CPUExecutionProvider"])
'''


def run_python(
    script: str, *arguments: str, check: bool = True, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `script` after the preamble. A return code other than 0 fails the test that called."""
    source = PREAMBLE.format(tests=str(TESTS)) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", source, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"return code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
