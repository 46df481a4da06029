"""Peak memory of a session against the stock provider's, with weights in the model file and beside it.

    python -m benchmarks.memory [--layers 12] [--json FILE]

Each figure is the high-water mark of a fresh process (VmHWM, megabytes) that makes a session of a BERT-like
model, runs it twice and ends. Ours has tuning on.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from models import bert
from models.graph import external_path, save

CHILD = """
import sys
import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
kind, path = sys.argv[1:]
options = ort.SessionOptions()
if kind == "stock":
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
else:
    session = tunableop.InferenceSession(path, options)
ids = np.ones((1, 128), np.int64)
feeds = {item.name: ids for item in session.get_inputs()}
for _ in range(2):
    session.run(None, feeds)
if kind != "stock":
    assert tunableop.stats(session).hits > 0
print(open("/proc/self/status").read())
"""


def peak_megabytes(kind: str, model: Path) -> float:
    """VmHWM of a process that runs `model` ("stock" or "ours")."""
    command = [sys.executable, "-c", CHILD, kind, str(model)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    match = re.search(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert match is not None, done.stdout
    return int(match.group(1)) / 1024


def measure(layers: int, repetitions: int = 1) -> list[dict[str, object]]:
    """One row for inline and one for external weights: least peaks and their ratio."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for external in (False, True):
            path = Path(folder) / f"bert_{'external' if external else 'inline'}.onnx"
            config = replace(bert.BASE, layers=layers)
            save(bert.build(config, seed=0, external=external_path(path) if external else None), path)
            stock = min(peak_megabytes("stock", path) for _ in range(repetitions))
            ours = min(peak_megabytes("ours", path) for _ in range(repetitions))
            kind = "external" if external else "inline"
            rows.append({"weights": kind, "stock_mb": stock, "ours_mb": ours, "ratio": ours / stock})
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=bert.BASE.layers)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = measure(args.layers)
    print("| weights | stock MB | ours MB | ours / stock |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['weights']} | {row['stock_mb']:.0f} | {row['ours_mb']:.0f} | {row['ratio']:.3f} |")
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
