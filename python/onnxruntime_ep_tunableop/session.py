"""Sessions with the provider in front: the short way and the way by session options."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import onnxruntime as ort

from . import _arguments, _control, _devices, _graphs, _options
from ._binding import FreshBinding
from ._devices import CPU_PROVIDER as CPU_PROVIDER
from ._devices import Provider
from ._devices import name_of as _name
from ._library import BY_NAME_ORT, EP_NAME, ort_version, register
from .errors import NotAssignedError, OptionError, TunableOpError

if TYPE_CHECKING:
    import onnx

logger = logging.getLogger("tunableop")

_saved_at_exit: weakref.WeakSet[InferenceSession] = weakref.WeakSet()

CLAIM = "claim"
GRAPHS = "enable_graph"
GRAPHS_ORT = (1, 26)  # the first that captures them for a plugin provider
GROUPS = "fused_groups"
NO_CPU_FALLBACK = "session.disable_cpu_ep_fallback"

#: What ort.InferenceSession takes by keyword only. It ignores others, so a misspelt option would be lost.
ORT_KEYWORDS = ("disabled_optimizers", "enable_fallback", "read_config_from_model")


def session_options(
    base: ort.SessionOptions | None = None,
    providers: Sequence[Provider] | None = None,
    **options: Any,
) -> ort.SessionOptions:
    """Session options that put this provider in front, to hand to anything that takes `ort.SessionOptions`.

    Args:
        base: options to add to; changed in place and returned. A new object when None.
        providers: providers to add behind this one. Default: on a card ONNX Runtime's own for it, where this
            onnxruntime has that. ONNX Runtime adds the CPU itself.
        options: the options of `InferenceSession` (tuning, cache, claim, fusion ...).

    Raises:
        OptionError: an unknown option, or `base` has providers already.
        NoDeviceError: there is no such `device`.
    """
    texts = _options.check(options)
    register()
    result = ort.SessionOptions() if base is None else base
    if _arguments.has_providers(result):
        raise OptionError(
            "base: these session options name providers already, and TunableOpExecutionProvider must come "
            "first; pass options without providers, and the others as providers=[...]"
        )
    others, among_them = _arguments.split_providers(providers, None)
    texts = _arguments.with_threads(among_them | texts, result)
    device = _arguments.choose(texts, result)
    _devices.refuse_graphs(result, others or ())
    _options.apply(result, texts)
    _devices.add(result, device, {})
    if others is None:
        _devices.add_stock(result, _arguments.stock(device, texts, result))
    else:
        _devices.check_company(device, others)
        _arguments.add(result, others)
    return result


def _warn_of_a_missing_cache(texts: dict[str, str]) -> None:
    """A session that never measures and finds no file runs untuned: mostly a path is misspelt."""
    path = texts.get("cache")
    if texts.get("tuning") == "cached" and path is not None and not os.path.lexists(path):
        logger.warning("tuning='cached', and there is no file '%s': default kernels run", path)


class InferenceSession(ort.InferenceSession):
    """An `ort.InferenceSession` whose MatMul and Gemm nodes run on the kernels measured fastest.

    Use it as any `ort.InferenceSession`; it is one. See `stats`, `explain`, `save_cache`, `load_cache`.

    Args:
        model: a path, the bytes of a model, or an `onnx.ModelProto`.
        sess_options: as for `ort.InferenceSession`. Only the recording of node assignments is switched on
            in it (on onnxruntime 1.24 the provider is added, too).
        providers: providers to use beside this one, which is put first. Default: on a card ONNX Runtime's own
            for it (CUDAExecutionProvider ...), where this onnxruntime has that, and the CPU.
        provider_options: as for `ort.InferenceSession`.
        tuning: "online" measures at the first use of a problem; "background" runs the default kernel at once
            and measures on copies while nobody is served; "cached" uses only what `cache` holds; "off" runs
            the default kernels; "record" does so too and counts every problem, for tuning later.
        cache: file with tuning results: loaded now if it exists, saved when the session ends and after new
            measurements.
        cache_size: problems kept at most; the least recently used go.
        warmup_iter: untimed calls before a kernel is timed, at most.
        max_tuning_ms: wall clock for one problem, in milliseconds (default: 100, on a card 300).
        min_gain: share of the default kernel's time that a winner must save.
        verify: compare every finalist with a reference in higher precision before it may win.
        candidates: "default" tries the few most promising kernels, "all" every one; or libraries to use, with
            commas ("cublaslt").
        claim: "gemm" takes every MatMul and Gemm, "weights" those with a constant B, "all" on a card every
            other operator that has a kernel, too; "auto" is "all", but on a card for which this onnxruntime
            has a provider of its own "weights".
        fusion: "auto" and "off" keep ONNX Runtime's fusions off MatMul and Gemm, "keep" leaves them on.
        precision: "exact"; on a card also "tf32" and "bf16", which round the operands of fp32 products.
        device: "cpu", "cuda", "hip", "cuda:1" ...; "auto" takes the first card that a library can run on,
            else the CPU. For another than the first, the provider is added to `sess_options`.
        threads: size of the intra-op pool, 0 to find out.
        measure_mode: what is kept beside the times: 0 nothing, 1 achieved rates, clock and temperature, 2 the
            processor's counters too.
        revalidate_ms: age at which a choice is measured again, in the background; 0 for never.
        max_tuning_bytes: memory for copies of operands and results while measuring.
        max_session_ms: wall clock for all measuring of this session, in milliseconds; 0 for no limit.
        max_day_ms: the same for one day and all processes that save to `cache`.
        background_share: share of the time, at most, that measuring in the background takes.
        background_hold_share: share of the time, at most, that runs are held back so that the background gets
            a turn although runs are always in flight; 0: never, which may leave problems unmeasured.
        buckets: "pow2" lets one measured m serve its whole range (1, 2, 3-4, 5-8 ...), "off" measures each.
        trace: CSV file to which every sample of every measurement is appended.
        fused_groups: on a card, nodes for which there is one kernel (a product and its biases) run as one.
        enable_graph: on a card, capture runs into graphs and replay those (onnxruntime >= 1.26). A graph
            takes nodes of one provider only: unless `claim` or `providers` is given, the whole model is ours
            then, without ONNX Runtime's own provider for the card; where that cannot be, there is no graph.
        max_graphs: graphs at the same time, at most; the least recently used go.
        graph_memory: bytes of the card that belong to graphs, at most; 0: a quarter of its memory.
        kwargs: what else `ort.InferenceSession` takes.

    Raises:
        OptionError: an unknown option or wrong value.
        NoDeviceError: there is no such `device`.
        TunableOpError: ONNX Runtime made a session without this provider.
    """

    def __init__(
        self,
        model: str | bytes | os.PathLike[str] | onnx.ModelProto,
        sess_options: ort.SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        tuning: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_size: int | None = None,
        warmup_iter: int | None = None,
        max_tuning_ms: float | None = None,
        min_gain: float | None = None,
        verify: bool | None = None,
        candidates: str | None = None,
        claim: str | None = None,
        fusion: str | None = None,
        precision: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        measure_mode: int | None = None,
        revalidate_ms: int | None = None,
        max_tuning_bytes: int | None = None,
        max_session_ms: float | None = None,
        max_day_ms: float | None = None,
        background_share: float | None = None,
        background_hold_share: float | None = None,
        buckets: str | None = None,
        trace: str | os.PathLike[str] | None = None,
        fused_groups: bool | None = None,
        enable_graph: bool | None = None,
        max_graphs: int | None = None,
        graph_memory: int | None = None,
        **kwargs: Any,
    ) -> None:
        texts = _options.check(
            {
                "tuning": tuning,
                "cache": cache,
                "cache_size": cache_size,
                "warmup_iter": warmup_iter,
                "max_tuning_ms": max_tuning_ms,
                "min_gain": min_gain,
                "verify": verify,
                "candidates": candidates,
                "claim": claim,
                "fusion": fusion,
                "precision": precision,
                "device": device,
                "threads": threads,
                "measure_mode": measure_mode,
                "revalidate_ms": revalidate_ms,
                "max_tuning_bytes": max_tuning_bytes,
                "max_session_ms": max_session_ms,
                "max_day_ms": max_day_ms,
                "background_share": background_share,
                "background_hold_share": background_hold_share,
                "buckets": buckets,
                "trace": trace,
                "fused_groups": fused_groups,
                "enable_graph": enable_graph,
                "max_graphs": max_graphs,
                "graph_memory": graph_memory,
            }
        )
        for key in kwargs:
            if key not in ORT_KEYWORDS:
                raise OptionError(
                    f"there is no option '{key}'; the options are: {', '.join(_options.DEFAULTS)}; "
                    f"and onnxruntime's: {', '.join(ORT_KEYWORDS)}"
                )
        register()
        options = ort.SessionOptions() if sess_options is None else sess_options
        others, among_them = _arguments.split_providers(providers, provider_options)
        texts = among_them | texts
        if _arguments.has_providers(options):
            _arguments.refuse_what_would_be_ignored(options, texts, bool(providers))
        # Otherwise an error of ours would silently become a session on the stock CPU provider.
        kwargs.setdefault("enable_fallback", 0)
        kwargs["disabled_optimizers"] = _arguments.disabled_optimizers(
            texts, kwargs.get("disabled_optimizers"), options
        )
        if not _options.config_entry(options, _options.RECORD_ASSIGNMENT):
            options.add_session_config_entry(_options.RECORD_ASSIGNMENT, "1")
        groups = _options.PREFIX + GROUPS
        if options.optimized_model_filepath and not (
            texts.get(GROUPS) or _options.config_entry(options, groups)
        ):
            # ONNX Runtime writes no model in which several nodes have become one.
            texts = texts | {GROUPS: "0"}
            if _arguments.has_providers(options):  # which decide alone
                options.add_session_config_entry(groups, "0")
        self._graphs: _graphs.Graphs | None = None
        entry = _options.config_entry(options, _options.PREFIX + GRAPHS)
        wants_graphs = (texts.get(GRAPHS) or entry) == "1"
        why_none = ""
        # A graph takes nodes of one provider only, which is then ours.
        claimed = texts.get(CLAIM) or _options.config_entry(options, _options.PREFIX + CLAIM) or "auto"
        whole = wants_graphs and claimed == "auto" and ort_version() >= GRAPHS_ORT
        try:
            try:
                self._create(model, options, others, texts, kwargs, whole=whole)
            except Exception as error:
                why_none = _graphs.refusal(error) if wants_graphs else ""
                if not why_none:
                    raise
                if entry == "1" or _arguments.has_providers(options):  # which decide alone
                    options.add_session_config_entry(_options.PREFIX + GRAPHS, "0")
                self._create(model, options, others, texts | {GRAPHS: "0"}, kwargs)
        except Exception as error:
            text = str(error)
            for start in ("TunableOp option", "TunableOp has no option", "TunableOp environment variable"):
                if start in text:
                    raise OptionError(text[text.index(start) :].strip()) from error
            raise
        self._check_assignment()
        if wants_graphs:
            self._prepare_graphs(why_none)
        _warn_of_a_missing_cache(texts)
        # Whatever way a cache was named; without one there is nothing to save.
        _saved_at_exit.add(self)

    def _create(
        self,
        model: str | bytes | os.PathLike[str] | onnx.ModelProto,
        options: ort.SessionOptions,
        others: list[Provider] | None,
        texts: dict[str, str],
        kwargs: dict[str, Any],
        *,
        whole: bool = False,
    ) -> None:
        """`whole`: where the caller named no provider, the model is to be a card's without another one."""
        argument = _arguments.model_argument(model)
        if _arguments.has_providers(options):
            # The options carry providers, ours among them (see session_options): they decide.
            _devices.refuse_graphs(options, ())
            super().__init__(argument, options, **kwargs)
            return
        texts = _arguments.with_threads(texts, options)
        device = _arguments.choose(texts, options)
        added: list[Provider] = []
        if others is None:
            if whole and device.backend != "cpu":
                texts = texts | {CLAIM: "all"}
            elif ort_version() >= BY_NAME_ORT:
                added = _arguments.stock(device, texts, options)
            # ONNX Runtime adds the CPU itself, and refuses to be told to when falling back to it is off.
            alone = _options.config_entry(options, NO_CPU_FALLBACK) == "1"
            others = added if alone else [*added, CPU_PROVIDER]
        _devices.refuse_graphs(options, others)
        _devices.check_company(device, others)
        _control.warm_up(device.id)
        by_name = ort_version() >= BY_NAME_ORT
        if by_name and device.first:
            # A name means the first device. The caller's options stay free of providers.
            super().__init__(argument, options, providers=[(EP_NAME, texts), *others], **kwargs)
        else:
            if not by_name and any(_name(entry) != CPU_PROVIDER for entry in others):
                raise OptionError(
                    "onnxruntime 1.24 takes no other providers beside a plugin one; use 1.25 or newer"
                )
            _devices.add(options, device, texts)
            if added:
                _devices.add_stock(options, added)
            else:
                _arguments.add(options, others)
            super().__init__(argument, options, **kwargs)
        _devices.check_stock(device, added, self.get_providers())

    def _prepare_graphs(self, why_none: str) -> None:
        """`why_none`: ONNX Runtime refused to make the session with graphs, and made it without."""
        stats = _control.stats(self)
        if stats.graphs.enabled:
            card = next(entry for entry in _devices.listed() if entry.id == stats.device)
            self._graphs = _graphs.Graphs(self, _graphs.Memory(card))
        elif why_none:
            others = sorted(
                {
                    node.op_type
                    for part in self.get_provider_graph_assignment_info()
                    if part.ep_name != EP_NAME
                    for node in part.get_nodes()
                }
            )
            rest = f" (not on {EP_NAME}: {', '.join(others)})" if others else ""
            _control.note_graphs(self, f"there are no graphs: {why_none}{rest}")

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: dict[str, Any],
        run_options: ort.RunOptions | None = None,
    ) -> Sequence[Any]:
        """As `ort.InferenceSession`; with `enable_graph`, and without run options, from a captured graph."""
        graphs = self._graphs if run_options is None else None
        if graphs is None:
            return cast("Sequence[Any]", super().run(output_names, input_feed, run_options))
        results = graphs.run(self, output_names, input_feed)
        if results is None:
            results = super().run(output_names, input_feed)
            graphs.learn(output_names, input_feed, results)
        return results

    def set_providers(self, *providers: Any, **named: Any) -> None:
        """As `ort.InferenceSession`."""
        self._graphs = None  # they are of the session that goes
        super().set_providers(*providers, **named)

    def io_binding(self) -> ort.IOBinding:
        """An `ort.IOBinding`; where onnxruntime has a provider of its own for cards, with fresh inputs."""
        # Also when that provider is not in the session: what it allocated is other memory than ours.
        return (
            FreshBinding(self) if _devices.has_stock(ort.get_available_providers()) else super().io_binding()
        )

    def run_with_iobinding(self, iobinding: ort.IOBinding, run_options: ort.RunOptions | None = None) -> None:
        """As `ort.InferenceSession`: runs on what is bound."""
        if isinstance(iobinding, FreshBinding):
            if iobinding.has_inputs_on_a_card and _graphs.is_numbered(run_options):
                raise OptionError(
                    "gpu_graph_id: this onnxruntime has a provider of its own for cards, and copies an input "
                    "on the card when it is bound; a replay would read another copy: use run(), or an "
                    "ort.IOBinding(session) of your own, whose inputs are then not read anew"
                )
            iobinding.refresh()
        super().run_with_iobinding(iobinding, run_options)

    def _check_assignment(self) -> None:
        if EP_NAME not in self.get_providers():
            raise TunableOpError(
                f"onnxruntime {ort.__version__} made a session without {EP_NAME} (providers: "
                f"{', '.join(self.get_providers())}); is it first in the list and registered?"
            )
        explanation = _control.explain(self)
        every: list[_control.Node | _control.OtherNode] = [*explanation.nodes, *explanation.operators]
        if not any(node.claimed for node in every):
            why = "; ".join(sorted({node.reason for node in explanation.nodes})) or "it has no MatMul or Gemm"
            if before := self.get_providers()[: self.get_providers().index(EP_NAME)]:
                why += f"; {', '.join(before)} came first and took what there was: put {EP_NAME} before it"
            logger.warning("%s runs no node of this model: %s", EP_NAME, why)


@atexit.register
def _save_caches_at_exit() -> None:
    """Sessions that are still alive when Python ends may never be released."""
    for session in list(_saved_at_exit):
        try:
            _control.stop_background(session)
            _control.save_own_cache(session)
        except NotAssignedError:
            pass  # set_providers took it off this provider
        except Exception as error:  # one session's trouble must not cost the others their results
            logger.warning("the cache of a session was not saved: %s", error)
