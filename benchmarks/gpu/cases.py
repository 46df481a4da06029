"""The models that are measured on a card: how large, what they are fed, and what is right.

Models and the CPU provider's answers are kept in a folder. Answers of large models take a processor long:
they are calculated once for each model and batch, in fp32, and lie beside the model under a name that is made
of the inputs.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.gpu import card as cards
from benchmarks.gpu.report import Clock, Report
from models import bert, gpt2, llama, t5, vit, whisper
from models.encoder import EncoderConfig
from models.graph import external_path, save

Arrays = dict[str, NDArray[Any]]
SIZES = ("static", "dynamic")
MODES = ("fp16", "fp32")  # unless others are asked for


@dataclass(frozen=True)
class Scale:
    """How large all models are."""

    name: str  #: a part of the names of files
    bert: EncoderConfig
    minilm: EncoderConfig
    llama: llama.LlamaConfig
    vit: vit.VitConfig
    t5: t5.T5Config
    whisper: whisper.WhisperConfig
    gpt2: gpt2.Gpt2Config
    sequence: int  #: tokens of what is read: BERT, MiniLM, T5's source, prompts
    target: int  #: tokens of T5's decoder
    past: int  #: tokens before the one that is decoded, Llama
    frames: int  #: of sound, Whisper

    def with_layers(self, layers: int) -> Scale:
        """The same with that many layers in all but the Llama block."""
        deep = {
            field.name: replace(getattr(self, field.name), layers=layers)
            for field in fields(self)
            if field.name != "llama" and hasattr(getattr(self, field.name), "layers")
        }
        return replace(self, name="-".join(filter(None, [self.name, f"{layers}-layer"])), **deep)


FULL = Scale(
    "",
    bert.BASE,
    EncoderConfig(layers=6, hidden=384, heads=12, intermediate=1536),
    llama.BLOCK_7B,
    vit.BASE,
    t5.SMALL,
    whisper.BASE,
    gpt2.BASE,
    sequence=128,
    target=32,
    past=511,
    frames=3000,
)
#: Sizes at which every kind of kernel runs: heads of 32 and 64 numbers are what fused attention is for.
_ENCODER = EncoderConfig(layers=2, hidden=128, heads=2, intermediate=256, vocabulary=50, positions=32)
SMALL = Scale(
    "small",
    _ENCODER,
    replace(_ENCODER, heads=4),
    llama.LlamaConfig(layers=2, hidden=128, heads=4, kv_heads=2, intermediate=192, positions=64),
    vit.VitConfig(layers=2, hidden=128, heads=2, intermediate=256, image=16, patch=4, classes=10),
    t5.T5Config(
        layers=2, hidden=128, heads=4, head_size=32, intermediate=256, vocabulary=50, buckets=8, distance=16
    ),
    whisper.WhisperConfig(layers=2, hidden=128, heads=2, intermediate=256, mels=8, positions=40),
    gpt2.Gpt2Config(layers=2, hidden=128, heads=2, vocabulary=50, positions=32),
    sequence=24,
    target=9,
    past=21,
    frames=48,
)


@dataclass(frozen=True)
class Kind:
    """One kind of model.

    `build`: of a scale and what every builder takes (batch, dtype, external). `feed`: of a scale and a batch,
    floating-point inputs in fp32. `size`: of one input, in words, after the batch.
    """

    batches: tuple[int, ...]
    build: Callable[[Scale, dict[str, Any]], onnx.ModelProto]
    feed: Callable[[Scale, int], Arrays]
    size: Callable[[Scale], str]


def _fixed(length: int, common: dict[str, Any]) -> int | None:
    """Lengths are free where the batch is."""
    return length if common["batch"] else None


def _tokens(vocabulary: int, batch: int, length: int, *zeros: str) -> Arrays:
    """Random tokens, nothing padded; inputs of the names `zeros` beside them."""
    ids = np.random.default_rng(batch).integers(0, vocabulary, (batch, length), dtype=np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return feed | {name: np.zeros_like(ids) for name in zeros}


def _noise(name: str, *shape: int) -> Arrays:
    return {name: np.random.default_rng(shape[0]).standard_normal(shape, dtype=np.float32)}


def _encoder(config: EncoderConfig, scale: Scale, common: dict[str, Any]) -> onnx.ModelProto:
    return bert.build(config, sequence=_fixed(scale.sequence, common), **common)


def _decoder_step(scale: Scale, common: dict[str, Any]) -> onnx.ModelProto:
    return llama.build(scale.llama, sequence=_fixed(1, common), past=_fixed(scale.past, common), **common)


def _prompt(scale: Scale, common: dict[str, Any]) -> onnx.ModelProto:
    # A model without a past has no inputs for one.
    return llama.build(scale.llama, sequence=_fixed(scale.sequence, common), past=0, **common)


def _t5(scale: Scale, common: dict[str, Any]) -> onnx.ModelProto:
    sequence, target = _fixed(scale.sequence, common), _fixed(scale.target, common)
    return t5.build(scale.t5, sequence=sequence, target=target, **common)


def _t5_feed(scale: Scale, batch: int) -> Arrays:
    targets = np.random.default_rng(batch + 1).integers(0, scale.t5.vocabulary, (batch, scale.target))
    return _tokens(scale.t5.vocabulary, batch, scale.sequence) | {"decoder_input_ids": targets}


#: "minilm" is MiniLM-L6 in shape; "llama" decodes one token, "prompt" reads one, with the same block.
KINDS: dict[str, Kind] = {
    "bert": Kind(
        (1, 16),
        lambda s, common: _encoder(s.bert, s, common),
        lambda s, batch: _tokens(s.bert.vocabulary, batch, s.sequence, "token_type_ids"),
        lambda s: str(s.sequence),
    ),
    "minilm": Kind(
        (1, 32),
        lambda s, common: _encoder(s.minilm, s, common),
        lambda s, batch: _tokens(s.minilm.vocabulary, batch, s.sequence, "token_type_ids"),
        lambda s: str(s.sequence),
    ),
    "llama": Kind(
        (1, 16),
        _decoder_step,
        lambda s, batch: llama.decode_feed(s.llama, batch=batch, sequence=1, past=s.past),
        lambda s: f"1 after {s.past}",
    ),
    "prompt": Kind(
        (1,),
        _prompt,
        lambda s, batch: llama.decode_feed(s.llama, batch=batch, sequence=s.sequence),
        lambda s: str(s.sequence),
    ),
    "vit": Kind(
        (1, 16),
        lambda s, common: vit.build(s.vit, **common),
        lambda s, batch: _noise("pixel_values", batch, s.vit.channels, s.vit.image, s.vit.image),
        lambda s: f"{s.vit.image}x{s.vit.image}",
    ),
    "t5": Kind((1, 16), _t5, _t5_feed, lambda s: f"{s.sequence} to {s.target}"),
    "whisper": Kind(
        (1, 8),
        lambda s, common: whisper.build(s.whisper, frames=_fixed(s.frames, common), **common),
        lambda s, batch: _noise("input_features", batch, s.whisper.mels, s.frames),
        lambda s: f"{s.frames} frames",
    ),
    "gpt2": Kind(
        (1, 8),
        lambda s, common: gpt2.build(s.gpt2, sequence=_fixed(s.sequence, common), **common),
        lambda s, batch: _tokens(s.gpt2.vocabulary, batch, s.sequence),
        lambda s: str(s.sequence),
    ),
}
MODELS = tuple(KINDS)


@dataclass(frozen=True)
class Case:
    """One model at one size."""

    model: str
    mode: str
    batch: int
    sizes: str
    scale: Scale = FULL

    def __str__(self) -> str:
        """For example "bert fp16 16x128 static"."""
        name = f"{self.scale.name} {self.model}".strip()
        return f"{name} {self.mode} {self.batch}x{KINDS[self.model].size(self.scale)} {self.sizes}"


class Models:
    """Builds each model once, into a folder, and keeps what is right there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._expected: dict[Path, list[NDArray[Any]]] = {}

    def path(self, case: Case) -> Path:
        """The file of a case's model."""
        dtype = cards.dtype_of(case.mode)
        batch = case.batch if case.sizes == "static" else None
        name = "-".join(
            filter(None, [case.model, case.scale.name, np.dtype(dtype).name, str(batch or "any")])
        )
        out = self.folder / f"{name}.onnx"
        if not out.exists():
            for old in self.folder.glob(f"{name}-*.npz"):  # answers of an older file of that name
                old.unlink()
            common = {"batch": batch, "dtype": dtype, "external": external_path(out)}
            save(KINDS[case.model].build(case.scale, common), out)
        return out

    def feed(self, case: Case) -> Arrays:
        """Inputs of a case, floating-point ones in its model's type."""
        return in_type(KINDS[case.model].feed(case.scale, case.batch), cards.dtype_of(case.mode))

    def expected(self, case: Case) -> list[NDArray[Any]]:
        """The outputs of ONNX Runtime's CPU provider, in fp32."""
        wide = replace(case, mode="fp32", sizes="dynamic")
        model, feed = self.path(wide), self.feed(wide)
        kept = model.with_name(f"{model.stem}-{digest(feed)}.npz")
        if kept not in self._expected:
            self._expected[kept] = _answers(kept, lambda: on_cpu(model, feed))
        return self._expected[kept]


def in_type(feed: common.Feed, dtype: type[np.floating]) -> Arrays:
    """The same inputs, floating-point ones in `dtype`."""
    return {k: v.astype(dtype) if np.issubdtype(v.dtype, np.floating) else v for k, v in feed.items()}


def on_cpu(model: Path, feed: common.Feed) -> list[NDArray[Any]]:
    """The CPU provider's outputs, on all processors."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = len(common.PROCESSORS)
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feed)))


def digest(feed: common.Feed) -> str:
    """Of the names, types, shapes and contents of inputs."""
    found = hashlib.sha256()
    for name in sorted(feed):
        values = np.ascontiguousarray(feed[name])
        found.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        found.update(values.tobytes())
    return found.hexdigest()[:16]


def _answers(kept: Path, make: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
    try:
        with np.load(kept) as found:
            return [found[f"output_{i}"] for i in range(len(found.files))]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass  # not there, or not whole
    made = make()
    beside = kept.with_suffix(f".{os.getpid()}.tmp")
    with beside.open("wb") as file:
        np.savez(file, **{f"output_{i}": values for i, values in enumerate(made)})  # type: ignore[arg-type]
    beside.replace(kept)
    return made


def add_arguments(parser: Any) -> None:
    """Which models, and how large."""
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--mode", nargs="+", choices=cards.MODES, help="(default: fp16 and fp32)")
    parser.add_argument("--batch", nargs="+", type=int, help="(default: what each model has tables of)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument(
        "--layers", type=int, help="of all models but the Llama block (default: the real ones')"
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny models: to see that it works, not how fast"
    )
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", help="keep models and answers, for next time"
    )


def scale_of(args: Any) -> Scale:
    """How large the arguments want models to be."""
    scale = SMALL if args.small else FULL
    return scale.with_layers(args.layers) if args.layers else scale


def cases(args: Any) -> Iterator[Case]:
    """What is asked for, model by model."""
    scale = scale_of(args)
    for model in args.model:
        batches = args.batch or KINDS[model].batches
        for mode, batch, sizes in itertools.product(args.mode or MODES, batches, args.sizes):
            yield Case(model, mode, batch, sizes, scale)


def in_time(wanted: Iterable[Case], args: Any, clock: Clock, report: Report) -> Iterator[tuple[Case, Models]]:
    """Those of the cases that there is time for: as much as the longest so far took.

    The report says of the others that they were left out. Models are built into `args.models`, else into a
    folder that goes when the iteration ends.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-models-") as made:
        folder = args.models or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        models = Models(folder)
        longest = 0.0
        for case in wanted:
            if clock.left() < longest:
                report.left_out.append(f"{case}: no time left")
                continue
            before = clock.left()
            yield case, models
            longest = max(longest, before - clock.left())
        for path in folder.glob("profile*"):
            path.unlink()
