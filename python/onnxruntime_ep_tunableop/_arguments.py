"""What a caller says of a session's providers and options, made one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import onnxruntime as ort

from . import _devices, _options
from ._devices import CPU_PROVIDER, Provider
from ._library import EP_NAME
from .errors import OptionError

if TYPE_CHECKING:
    import onnx


def model_argument(
    model: str | bytes | os.PathLike[str] | onnx.ModelProto,
) -> str | bytes | os.PathLike[str]:
    if isinstance(model, (str, bytes, os.PathLike)):
        return model
    if hasattr(model, "SerializeToString"):
        return cast("bytes", model.SerializeToString())
    raise TypeError(f"model: expected a path, bytes or an onnx.ModelProto, found {type(model).__name__}")


def with_threads(options: dict[str, str], sess_options: ort.SessionOptions) -> dict[str, str]:
    """Adds the size of the session's own pool where the user set it; otherwise the provider finds out."""
    threads = sess_options.intra_op_num_threads
    own_pool = getattr(sess_options, "use_per_session_threads", True)
    if "threads" not in options and 0 < threads <= _options.MOST_THREADS and own_pool:
        return options | {"threads": str(threads)}
    return options


def add(options: ort.SessionOptions, others: Iterable[Provider]) -> None:
    for entry in others:
        if _devices.name_of(entry) != CPU_PROVIDER:  # which ONNX Runtime adds itself, last
            options.add_provider(_devices.name_of(entry), {} if isinstance(entry, str) else dict(entry[1]))


def choose(texts: dict[str, str], options: ort.SessionOptions) -> _devices.Listed:
    """The device for the session; `texts` go before what `options` hold."""
    entry = _options.config_entry(options, _options.PREFIX + "device")
    return _devices.choose(texts.get("device") or entry or "auto")


def stock(device: _devices.Listed, texts: dict[str, str], options: ort.SessionOptions) -> list[Provider]:
    """The provider for the rest of the model, when the caller named none."""
    entry = _options.config_entry(options, _options.PREFIX + "precision")
    return _devices.beside(device, texts.get("precision") or entry or "exact")


def has_providers(options: ort.SessionOptions) -> bool:
    """Whether providers were added to the options (onnxruntime < 1.25 cannot say: then False)."""
    return bool(options.has_providers()) if hasattr(options, "has_providers") else False


def disabled_optimizers(
    texts: dict[str, str], theirs: Iterable[str] | None, options: ort.SessionOptions
) -> list[str]:
    """The caller's lists with the fusions added that rewrite MatMul and Gemm, unless they are to be kept.

    The argument replaces the entry of the session options in onnxruntime, so the entry's names go along.
    """
    names = list(theirs or [])
    entry = _options.config_entry(options, _options.DISABLED_OPTIMIZERS)
    ours = () if _options.keeps_fusions(options, texts) else _options.FUSIONS
    for name in (*entry.split(";"), *ours):
        if name and name not in names:
            names.append(name)
    return names


def refuse_what_would_be_ignored(options: ort.SessionOptions, texts: dict[str, str], providers: bool) -> None:
    """`options` with providers decide alone: the same again is no contradiction, anything else is."""
    given = [
        key for key, value in texts.items() if _options.config_entry(options, _options.PREFIX + key) != value
    ]
    if providers:
        given.append("providers")
    if given:
        raise OptionError(
            f"sess_options name providers already, so {', '.join(given)} would be ignored: "
            "give options to session_options, or pass options without providers"
        )


def split_providers(
    providers: Sequence[Provider] | None, provider_options: Sequence[dict[Any, Any]] | None
) -> tuple[list[Provider] | None, dict[str, str]]:
    """The other providers (None: the caller named none at all), and the options that stand beside ours."""
    entries = list(providers or ())
    if provider_options is not None:
        if len(provider_options) != len(entries):
            raise OptionError(
                f"provider_options: expected one for each of the {len(entries)} providers, "
                f"found {len(provider_options)}"
            )
        pairs = zip(entries, provider_options, strict=True)
        entries = [(_devices.name_of(entry), extra) for entry, extra in pairs]
    texts: dict[str, str] = {}
    for entry in entries:
        if _devices.name_of(entry) == EP_NAME and not isinstance(entry, str):
            texts = _options.check(dict(entry[1])) | texts
    others = [entry for entry in entries if _devices.name_of(entry) != EP_NAME]
    return (None if providers is None else others), texts
