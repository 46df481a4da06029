"""Do the vendors' libraries end the process that loads and calls them? Asked in a process of its own.

A library cut short faults when it is loaded; rocBLAS ends the process when it has no kernels for a card. The
doctor itself must live, so whose library does that is kept away from this process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from . import vendors
from .check import Finding, asks
from .library import REINSTALL

SECONDS = 120
#: Where nothing is found.
NOWHERE = "/nonexistent"

#: All that the questions after this one do with a card: list what there is, and run one small product.
_SCRIPT = """
import sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
from onnxruntime_ep_tunableop.doctor import trial
trial.error(trial.session(device=sys.argv[1]))
"""


def death(device: str, hidden: tuple[str, ...] = ()) -> str | None:
    """How a process dies that uses the libraries, those of `hidden` variables left out; None: it lives."""
    environment = os.environ | dict.fromkeys(hidden, NOWHERE)
    # The child must import what this process imported, and nothing that lies about in the folder.
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, device],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not come back for {SECONDS} s"
    if done.returncode >= 0:
        return None  # an error in words is told by the question that it belongs to
    try:
        return f"was ended by {signal.Signals(-done.returncode).name}"
    except ValueError:
        return f"was ended by signal {-done.returncode}"


@asks("machine.loading", "can the vendors' libraries be loaded and called without harm?")
def harmless(device: str, deadly: list[vendors.Vendor]) -> Finding | None:
    """`deadly` gets the vendors whose libraries are kept away from this process from now on."""
    how = death(device)
    if how is None:
        return None
    found = [vendor for vendor in vendors.VENDORS if death(device, (vendor.variable,)) is None]
    everybody = tuple(vendor.variable for vendor in vendors.VENDORS)
    if not found and death(device, everybody) is None:
        found = list(vendors.VENDORS)
    evidence = [f"a process that used them {how}"]
    if not found:
        return Finding("problem", [*evidence, "also without them"], REINSTALL)
    deadly += found
    names = " and ".join(vendor.name for vendor in found)
    evidence[0] = f"a process that used the libraries of {names} {how}"
    remedies = [vendors.reinstall(vendor) for vendor in found]
    for vendor in found:
        if folders := os.environ.get(vendor.variable):
            evidence.append(f"they are in {vendor.variable}={folders}")
        os.environ[vendor.variable] = NOWHERE
    return Finding("problem", evidence, "; ".join(remedies))
