"""What all pictures have in common: how they look, and that the same data give the same file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TunableOpError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")

#: Told apart with normal and with red-green blind eyes: Okabe and Ito's (2008), then some of Paul Tol's.
COLOURS = (
    *("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00"),
    *("#0072B2", "#999999", "#882255", "#DDCC77", "#AA4499", "#117733"),
)
#: One for each colour, so that a picture reads without colours.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*", "h", "<", ">")
REST_COLOUR, REST_MARKER = "#FFFFFF", "."
NOTHING = "#ECECEC"  # where there is no data
GREY = "#555555"


class NoPlotError(TunableOpError, ImportError):
    """matplotlib is not installed."""


@contextlib.contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """An empty figure, in inches. No window system is asked for, and pyplot is left alone.

    Raises:
        NoPlotError: without matplotlib.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NoPlotError(f"{error}: pip install 'onnxruntime-ep-tunableop[plot]'") from error
    look: Any = {
        "svg.hashsalt": "tunableop",
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.unicode_minus": False,
        "text.parse_math": False,  # names may hold dollar signs
    }
    # A user's own matplotlibrc shall not change what a picture says.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(look)
        yield Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, out: Path) -> None:
    """Writes the picture; its format is the suffix of `out`."""
    metadata = {"Date": None} if out.suffix == ".svg" else {"Software": None}
    figure.savefig(out, dpi=120, metadata=metadata)
