"""These tests look into the native part, with a module that is built for them."""

from __future__ import annotations

import sysconfig

import pytest
from support.built import built

try:
    built("tunableop_native_tests" + sysconfig.get_config_var("EXT_SUFFIX"))
except FileNotFoundError as error:
    raise pytest.UsageError(f"tests/native: {error}") from error
