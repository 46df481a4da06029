"""Benchmarks that a user runs: `tunableop bench`. Modules here measure and compute; only `cli` prints.

`figures` holds the arithmetic, `turns` the alternation, `profile` and `work` what a model's nodes did,
`ceiling` what the machine can do at most, `gemm` single products.
"""

from __future__ import annotations
