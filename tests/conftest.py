from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:  # for `support`, whatever the import mode
    sys.path.insert(0, str(Path(__file__).parent))

from support.built import FOLDER
from support.other_python import NoIndexError, environment

# Native code for tests only, here and in the processes that tests start.
sys.path.insert(0, str(FOLDER))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the tests that need it say so themselves
    pass
else:
    # The same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones.
    quiet = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
    settings.register_profile(
        "same", deadline=None, max_examples=60, derandomize=True, suppress_health_check=quiet
    )
    settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=quiet)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture
def openblas() -> str:
    """The identity of OpenBLAS, for tests that need more than one library."""
    tunableop = pytest.importorskip("onnxruntime_ep_tunableop")
    device = tunableop.devices()[0]
    if "openblas" not in device.libraries:
        pytest.skip(f"OpenBLAS is not here: {device.missing.get('openblas', 'not known to this build')}")
    return str(device.libraries["openblas"])


@pytest.fixture(scope="session")
def onnxruntime_1_22() -> Path:
    """A Python with onnxruntime 1.22.1, the last one with ROCm's provider; it loads no plugin providers."""
    try:
        return environment("onnxruntime==1.22.1", "numpy")
    except NoIndexError as error:
        pytest.skip(f"no environment with onnxruntime 1.22.1: pip reaches no index: {error}")
