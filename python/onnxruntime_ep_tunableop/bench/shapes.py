"""Shapes of single products: those that come with the package, and a user's own."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import OptionError

#: The shapes of docs/benchmarks.md.
PACKAGED = Path(__file__).with_name("shapes.csv")

EXPECTED = "m,n,k, m,n,k,batch or a CSV file with the columns m, n, k and perhaps name, batch, b_const"
_SIZES = re.compile(r"\s*\d+\s*(,\s*\d+\s*){2,3}")


@dataclass(frozen=True)
class Shape:
    """C[batch, m, n] = A[batch, m, k] x B; a constant B is [k, n], another one [batch, k, n]."""

    name: str
    batch: int
    m: int
    n: int
    k: int
    constant_b: bool

    @property
    def size(self) -> str:
        """For example "96x 128x128x64"."""
        return (f"{self.batch}x " if self.batch > 1 else "") + f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        """Floating-point operations of one product."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def elements(self) -> int:
        """Of A, B and C together: what one product has to move."""
        b = self.k * self.n * (1 if self.constant_b else self.batch)
        return self.batch * (self.m * self.k + self.m * self.n) + b


def read_shapes(text_or_path: str | os.PathLike[str] | None = None) -> list[Shape]:
    """Shapes from a CSV file or its text, or one of "m,n,k" and "m,n,k,batch". None: those of the package.

    In a CSV further columns are ignored, and so are empty lines and those that begin with #. Without b_const,
    and in "m,n,k", B is a weight; with a batch it is computed.

    Raises:
        OptionError: there is no such file, or it does not say what is needed; the message names the line.
    """
    if text_or_path is None:
        text_or_path = PACKAGED
    if isinstance(text_or_path, str):
        if _SIZES.fullmatch(text_or_path):
            return [_one(text_or_path)]
        if "\n" in text_or_path:
            return _table(text_or_path.splitlines(), "shapes")
    path = Path(text_or_path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"shapes: expected {EXPECTED}; found '{text_or_path}': {reason}") from error
    return _table(text.splitlines(), path.name)


def _one(text: str) -> Shape:
    m, n, k, *rest = (int(part) for part in text.split(","))
    batch = rest[0] if rest else 1
    if min(m, n, k, batch) < 1:
        raise OptionError(f"shapes: expected sizes above 0, found '{text}'")
    shape = Shape("", batch, m, n, k, batch == 1)
    return Shape(shape.size.replace(" ", ""), batch, m, n, k, batch == 1)


def _table(lines: Iterable[str], name: str) -> list[Shape]:
    numbered = [(at, line) for at, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    rows = csv.reader(line for _, line in numbered)
    header = [column.strip() for column in next(rows, [])]
    if missing := [column for column in ("m", "n", "k") if column not in header]:
        raise OptionError(f"{name}: there is no column {', '.join(missing)}; expected {EXPECTED}")
    found: list[Shape] = []
    for (at, _), row in zip(numbered[1:], rows, strict=False):
        cells = {column: cell.strip() for column, cell in zip(header, row, strict=False)}
        where = f"{name}, line {at}"
        m, n, k = (_whole(cells.get(column, ""), column, where) for column in ("m", "n", "k"))
        batch = _whole(cells.get("batch") or "1", "batch", where)
        constant = cells.get("b_const") or ("1" if batch == 1 else "0")
        if constant not in ("0", "1"):
            raise OptionError(f"{where}: b_const: expected 0 or 1, found '{constant}'")
        shape = Shape(cells.get("name", ""), batch, m, n, k, constant == "1")
        if not shape.name:
            shape = Shape(shape.size.replace(" ", ""), batch, m, n, k, constant == "1")
        if any(other.name == shape.name for other in found):
            raise OptionError(f"{where}: there is a shape '{shape.name}' already")
        found.append(shape)
    if not found:
        raise OptionError(f"{name}: there is no shape in it; expected {EXPECTED}")
    return found


def _whole(text: str, column: str, where: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise OptionError(f"{where}: {column}: expected a whole number from 1 to 999999999, found '{text}'")
    return int(text)
