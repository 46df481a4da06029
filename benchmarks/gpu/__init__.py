"""Measurements on a machine with a card: `python -m benchmarks.gpu.run`."""
