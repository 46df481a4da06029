"""These tests look into the native part, with a module that is built for them."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator

import pytest
from support.built import built

try:
    built("tunableop_native_tests" + sysconfig.get_config_var("EXT_SUFFIX"))
except FileNotFoundError as error:
    raise pytest.UsageError(f"tests/native: {error}") from error


#: Blocks of the grid and threads of a block: one after another, more than there is work for, and such
#: as work together (128: as on a card; 12: groups of 4).
GRIDS = [(1, 1), (3, 1), (1000, 1), (2, 128), (3, 12)]


@pytest.fixture(params=GRIDS, ids=lambda grid: f"{grid[0]}x{grid[1]}")
def blocks(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many blocks a kernel of a card is run with; how many threads those have is set."""
    from device_helpers import kernels

    kernels.set_threads(request.param[1])
    yield request.param[0]
    kernels.set_threads(1)
