"""Where weights come from: a safetensors file, or a seeded generator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}


def read_safetensors(path: Path) -> dict[str, Array]:
    """Reads every tensor of a safetensors file as a read-only view of the mapped file (nothing is copied).

    Format: 8 bytes little-endian header length, JSON header {name: {dtype, shape, data_offsets}}, data.
    Raises ValueError, naming the tensor, when the header does not fit the file.
    """
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    length = int(raw[:8].view("<u8")[0]) if raw.size >= 8 else raw.size
    if length > raw.size - 8:
        raise ValueError(f"{path}: not a safetensors file (header of {length} bytes in a file of {raw.size})")
    header = json.loads(raw[8 : 8 + length].tobytes())
    data = raw[8 + length :]
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{path}: {name}: dtype {entry['dtype']} is not one of {', '.join(_DTYPES)}")
        dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if not 0 <= begin <= end <= data.size or end - begin != dtype.itemsize * int(np.prod(shape)):
            raise ValueError(f"{path}: {name}: shape {shape} does not fit bytes {begin}..{end}")
        # tobytes, because a tensor may start at an address that its dtype does not allow
        aligned = begin % dtype.itemsize == 0 and (8 + length) % dtype.itemsize == 0
        piece = data[begin:end]
        tensors[name] = (piece.view(dtype) if aligned else np.frombuffer(piece.tobytes(), dtype)).reshape(
            shape
        )
    return tensors


class RandomWeights:
    """Seeded weights, each drawn in float32 when it is asked for, so that only one is in memory at a time."""

    def __init__(self, seed: int) -> None:
        """The same seed and the same order of calls give the same numbers."""
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float) -> NDArray[np.float32]:
        """Normal numbers of standard deviation `scale`."""
        values = self._rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(scale)
        return values

    def near_one(self, *shape: int) -> NDArray[np.float32]:
        """Gains of a normalisation: 1 +- 0.05."""
        values = self.normal(*shape, scale=0.05)
        values += np.float32(1)
        return values
