"""Arrays on their way into sessions, out of them, and between processes.

NumPy is imported where it is needed: importing it is part of what a fresh process is timed for.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGNMENT = 64  # bytes; what a tensor inside a real model has

#: Element types without a NumPy type, and their numbers in onnx.TensorProto: they are fed as bits.
AS_BITS = {
    "tensor(bfloat16)": 16,
    "tensor(float8e4m3fn)": 17,
    "tensor(float8e4m3fnuz)": 18,
    "tensor(float8e5m2)": 19,
    "tensor(float8e5m2fnuz)": 20,
}
BFLOAT16 = "tensor(bfloat16)"


def parts(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays in an output: itself, or those of a sequence or map, named after their place in it."""
    import numpy as np

    if value is None:  # an optional output that is not there
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from parts(f"{name}[{key}]", item)
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from parts(f"{name}[{at}]", item)
    else:
        array = np.asarray(value)
        yield name, array.astype(str) if array.dtype == object else array


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """A copy that starts at a multiple of ALIGNMENT; both sides read the same, wherever it came from."""
    import numpy as np

    if values.dtype.hasobject:
        return values
    room = np.empty(values.nbytes + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy: NDArray[Any] = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def as_bits(values: NDArray[Any]) -> NDArray[Any]:
    """Elements that NumPy itself has no type for (bfloat16) as unsigned integers; others as they are."""
    import numpy as np

    if values.dtype.kind != "V":
        return values
    return np.ascontiguousarray(values).view(np.dtype(f"u{values.dtype.itemsize}")).reshape(values.shape)


def rounded_to_bfloat16(values: NDArray[Any]) -> NDArray[Any]:
    """The bits of float32 values rounded to the nearest bfloat16, ties to even."""
    import numpy as np

    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(values.shape).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def numpy_of(value: Any) -> NDArray[Any]:
    """An OrtValue in the host's memory as an array; bfloat16 widened to float32, other such types as bits."""
    import numpy as np

    kind = value.data_type()
    if kind not in AS_BITS:
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    width = np.uint16 if kind == BFLOAT16 else np.uint8
    size = int(np.prod(shape)) * np.dtype(width).itemsize
    bits = np.frombuffer(ctypes.string_at(value.data_ptr(), size), dtype=width).reshape(shape)
    return (bits.astype(np.uint32) << 16).view(np.float32) if kind == BFLOAT16 else bits


def save_arrays(folder: Path, stem: str, arrays: Iterable[tuple[str, NDArray[Any]]]) -> list[list[str]]:
    """Writes arrays as files of `folder`; the list of (name, file) that load_arrays takes."""
    import numpy as np

    listed = []
    for at, (name, array) in enumerate(arrays):
        file = f"{stem}.{at}.npy"
        np.save(folder / file, as_bits(np.asarray(array)), allow_pickle=False)
        listed.append([name, file])
    return listed


def load_arrays(folder: Path, listed: Iterable[Iterable[str]]) -> dict[str, NDArray[Any]]:
    """What save_arrays wrote, removed from the folder."""
    import numpy as np

    arrays = {}
    for name, file in listed:
        arrays[name] = np.load(folder / file, allow_pickle=False)
        (folder / file).unlink()
    return arrays
