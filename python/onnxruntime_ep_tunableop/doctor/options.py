"""Are the options that sessions are to be made with known, and their values possible?"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping

from .. import _options
from ..errors import OptionError
from .check import Finding, asks


@asks("options.values", "are the options known, and their values possible?")
def given(options: Mapping[str, str], device: str) -> Finding | None:
    """Makes a session with them."""
    if not options:
        return None
    from . import trial

    evidence = [f"{key}={value}" for key, value in options.items()]
    unknown = [key for key in options if key not in _options.DEFAULTS]
    if unknown:
        evidence = [f"there is no option '{key}'" for key in unknown]
        return Finding("problem", evidence, " ".join(_renamed(options, key) for key in unknown))
    wrong: dict[str, str] = {}
    for key, value in options.items():
        try:
            # `cache` and `trace` would be written to; their values are paths, and any will do.
            if key in ("cache", "trace", "device"):
                _options.check({key: value})
            else:
                trial.session(device=device, **{key: value})
        except OptionError as error:
            wrong[key] = str(error)
    if not wrong:
        return Finding("ok", evidence)
    remedies = [_corrected(key, options[key], text) for key, text in wrong.items()]
    return Finding("problem", list(wrong.values()), " ".join(remedies))


def _renamed(options: Mapping[str, str], key: str) -> str:
    close = difflib.get_close_matches(key, _options.DEFAULTS, n=1, cutoff=0.6)
    if not close:
        return f"leave out --option {key}=...: the options are {', '.join(_options.DEFAULTS)}"
    return f"--option {close[0]}={shlex.quote(options[key])}"


def _corrected(key: str, value: str, text: str) -> str:
    """The nearest of the allowed values, else the default."""
    listed = re.search(r"expected one of (.*), found", text)
    words = listed[1].split(", ") if listed else []
    close = difflib.get_close_matches(value, words, n=1, cutoff=0.5)
    return f"--option {key}={close[0] if close else _default(key)}"


def _default(key: str) -> str:
    value = _options.DEFAULTS[key]
    return str(int(value)) if isinstance(value, bool) else str(value)
