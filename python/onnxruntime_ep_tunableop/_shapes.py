"""From shapes in a user's words to feeds that a model runs on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from .errors import OptionError

logger = logging.getLogger("tunableop")

Array = npt.NDArray[Any]
Feeds = dict[str, Array]
#: Of one input: its dimensions, or the very array to feed.
Shape = Sequence[int] | Array
ShapeSet = Mapping[str, Shape]
#: One set of shapes, or several. None: what the model says.
Shapes = ShapeSet | Sequence[ShapeSet] | None

_TYPES: dict[str, type[np.generic]] = {
    "float": np.float32,
    "float16": np.float16,
    "double": np.float64,
    "bool": np.bool_,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
}


def shape_sets(shapes: Shapes) -> list[ShapeSet]:
    """Always a list. OptionError: neither a mapping nor a list of mappings."""
    if shapes is None:
        return []
    if isinstance(shapes, Mapping):
        return [shapes]
    sets = list(shapes)
    for entry in sets:
        if not isinstance(entry, Mapping):
            raise OptionError(
                "shapes: expected {input: dimensions} or a list of such, found a list with "
                f"{type(entry).__name__} {entry!r}"
            )
    if not sets:
        raise OptionError("shapes: expected at least one set of shapes, found an empty list")
    return sets


def make_feeds(
    session: ort.InferenceSession,
    shapes: Shapes,
    dims: Mapping[str, int] | None = None,
    *,
    warn: bool = True,
    seed: int = 0,
) -> list[Feeds]:
    """The feeds for each set of shapes; made up (always the same) where no array was given.

    An input that a set does not name takes its dimensions from symbols that other inputs or `dims` give
    a value. With `shapes` None what is still open becomes 1, with a warning. `seed`: of the made-up numbers.

    Raises:
        OptionError: an unknown input or symbol, a wrong rank or dimension, an input left open.
    """
    inputs = session.get_inputs()
    _check_symbols(inputs, dims or {})
    if shapes is None:
        return [_feeds(inputs, {}, dims or {}, lenient=True, warn=warn, seed=seed)]
    return [
        _feeds(inputs, entry, dims or {}, lenient=False, warn=warn, seed=seed) for entry in shape_sets(shapes)
    ]


def describe(feeds: Feeds) -> str:
    """ "input:1x128, mask:1x128" for a message."""
    return ", ".join(f"{name}:{'x'.join(map(str, array.shape))}" for name, array in feeds.items())


def _check_symbols(inputs: Sequence[Any], dims: Mapping[str, int]) -> None:
    known = list(dict.fromkeys(dim for entry in inputs for dim in entry.shape if isinstance(dim, str)))
    for name, size in dims.items():
        if name not in known:
            raise OptionError(
                f"dims: the model has no symbolic dimension '{name}'; it has: {', '.join(known) or 'none'}"
            )
        _check_size(f"dims: '{name}'", size)


def _check_size(what: str, size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise OptionError(f"{what}: expected a whole number above 0, found {size!r}")
    return int(size)


def _feeds(
    inputs: Sequence[Any],
    given: ShapeSet,
    dims: Mapping[str, int],
    *,
    lenient: bool,
    warn: bool,
    seed: int,
) -> Feeds:
    names = [entry.name for entry in inputs]
    for name in given:
        if name not in names:
            raise OptionError(
                f"shapes: the model has no input '{name}'; its inputs are: {', '.join(names) or 'none'}"
            )
    sizes = dict(dims)
    for entry in inputs:
        if entry.name in given:
            for dim, size in zip(entry.shape, _checked(entry, given[entry.name]), strict=False):
                if isinstance(dim, str) and dims.get(dim, size) != size:
                    raise OptionError(
                        f"shapes: input '{entry.name}': '{dim}' is {size} there, and {dims[dim]} in dims"
                    )
                if isinstance(dim, str):
                    sizes.setdefault(dim, size)
    random = np.random.default_rng(seed)
    opened: list[str] = []
    feeds: Feeds = {}
    for entry in inputs:
        value = given.get(entry.name)
        if isinstance(value, np.ndarray):
            feeds[entry.name] = value
            continue
        if value is not None:
            shape = _checked(entry, value)
        else:
            shape = [_size(entry, at, dim, sizes, opened) for at, dim in enumerate(entry.shape)]
            if opened and not lenient:
                raise OptionError(
                    f"shapes: input '{entry.name}' is missing, and {', '.join(opened)} is open; "
                    "give the input's dimensions"
                )
        feeds[entry.name] = _made_up(entry, shape, random)
    if opened and warn:
        logger.warning("no shapes were given: %s taken as 1", ", ".join(dict.fromkeys(opened)))
    return feeds


def _size(entry: Any, at: int, dim: Any, sizes: Mapping[str, int], opened: list[str]) -> int:
    if isinstance(dim, int) and dim > 0:
        return dim
    if isinstance(dim, str) and dim in sizes:
        return sizes[dim]
    opened.append(f"'{dim}'" if isinstance(dim, str) else f"dimension {at} of '{entry.name}'")
    return 1


def _checked(entry: Any, value: Shape) -> list[int]:
    """The dimensions of a value, which must fit what the model says of the input."""
    what = f"shapes: input '{entry.name}'"
    if isinstance(value, np.ndarray):
        shape = list(value.shape)
    elif isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise OptionError(f"{what}: expected a list of dimensions or a numpy array, found {value!r}")
    else:
        shape = [_check_size(what, size) for size in value]
    # onnxruntime shows a tensor of unknown rank as one of rank 0.
    if entry.shape and len(shape) != len(entry.shape):
        raise OptionError(
            f"{what}: expected {len(entry.shape)} dimensions ({_text(entry.shape)}), "
            f"found {len(shape)} ({_text(shape)})"
        )
    for dim, size in zip(entry.shape, shape, strict=False):
        if isinstance(dim, int) and dim > 0 and dim != size:
            raise OptionError(f"{what}: expected {_text(entry.shape)}, found {_text(shape)}")
    return shape


def _text(shape: Sequence[Any]) -> str:
    """ "1x128", or "batch x sequence" where a name could be misread."""
    between = " x " if any(isinstance(dim, str) for dim in shape) else "x"
    return between.join("?" if dim is None else str(dim) for dim in shape)


def _made_up(entry: Any, shape: Sequence[int], random: np.random.Generator) -> Array:
    kind = str(entry.type)
    dtype = _TYPES.get(kind.removeprefix("tensor(").removesuffix(")"))
    if dtype is None or not kind.startswith("tensor("):
        raise OptionError(
            f"shapes: input '{entry.name}' is a {kind}, which cannot be made up; give an array to feed"
        )
    if np.issubdtype(dtype, np.floating):
        return random.uniform(-1.0, 1.0, shape).astype(dtype)
    # 0 and 1 are in every vocabulary, and fit masks and segment numbers.
    return random.integers(0, 2, shape).astype(dtype)
