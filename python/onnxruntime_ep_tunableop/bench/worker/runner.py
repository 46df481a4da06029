"""A session with its feeds: made, run and timed."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import os
import platform
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping  # noqa: UP035 (Python 3.8)

from . import arrays
from .callers import Caller, together, wait_until_idle
from .failure import WorkerError, one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

OURS = "tunableop"  # the kind of a side with our provider
PLUGIN_ORT = (1, 24)  # the first that loads plugin execution providers of our kind


class Runner:
    """A session with its feeds. Not thread-safe: one caller at a time, who may be any thread.

    `spec` is what SideSpec.as_json makes: kind ("stock" or "tunableop"), model, providers, options, threads
    (None: ONNX Runtime's own choice), concurrency.

    So that two sessions can be compared, whichever provider they have: a block begins and ends only when the
    process is idle, for a pool spins for tens of milliseconds after its last run, and would take processors
    from whoever is next. (It must spin between the runs of a block: told to stop, it would be woken for every
    run, which small models do not have with the default options.) With a stated number of threads that the
    processors suffice for, and one caller, the threads of the pool are pinned to a processor each, and while
    a block is timed so is the calling thread. Otherwise the same session would differ from itself.

    Raises WorkerError; for our own provider also what it raises itself.
    """

    def __init__(
        self, spec: Mapping[str, Any], feeds: Mapping[str, NDArray[Any]], imported: float = 0.0
    ) -> None:
        self._threads: int | None = spec["threads"]
        self._concurrency = int(spec["concurrency"])
        self._processors = sorted(os.sched_getaffinity(0))
        self._ours = spec["kind"] == OURS
        self._callers: list[Caller] = []
        self._ran = False
        self._ort = _onnxruntime()
        self._import_seconds = imported
        start = time.perf_counter()
        self._session = self._open(spec)
        self._creation_seconds = time.perf_counter() - start
        self._call, self._bits = self._prepare(feeds)

    def _open(self, spec: Mapping[str, Any]) -> Any:
        model = str(spec["model"])
        if not Path(model).is_file():
            raise WorkerError("model", f"there is no model file {model}")
        providers = [(str(name), dict(options)) for name, options in spec["providers"]]
        available = self._ort.get_available_providers()
        for name, _ in providers:
            if name not in available:
                there = ", ".join(available)
                raise WorkerError(
                    "provider", f"onnxruntime {self._ort.__version__} has no {name}; it has {there}"
                )
        options = self._session_options()
        if self._ours:
            tunableop = _package(self._ort)
            try:
                return tunableop.InferenceSession(
                    model, sess_options=options, providers=providers or None, **dict(spec["options"])
                )
            except tunableop.TunableOpError:
                raise
            except Exception as error:
                raise WorkerError("model", f"no session of {model}: {one_line(error)}") from error
        said = io.StringIO()
        try:
            # Before 1.23 a provider that fails is replaced by the CPU, with a word on stdout.
            with contextlib.redirect_stdout(said):
                session = self._ort.InferenceSession(model, options, providers=providers, enable_fallback=0)
        except Exception as error:
            raise WorkerError("model", f"no session of {model}: {one_line(error)}") from error
        for name, _ in providers:
            if name not in session.get_providers():
                reason = [line for line in said.getvalue().splitlines() if line.startswith("EP Error")]
                why = reason[0] if reason else "its log says why"
                version = self._ort.__version__
                raise WorkerError(
                    "provider", f"onnxruntime {version} made the session without {name} ({why})"
                )
        session.disable_fallback()
        return session

    def _session_options(self) -> Any:
        options = self._ort.SessionOptions()
        options.log_severity_level = 3
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
            if self._pins and self._threads > 1:
                others = self._processors[1 : self._threads]
                affinities = ";".join(str(processor + 1) for processor in others)  # counted from 1
                options.add_session_config_entry("session.intra_op_thread_affinities", affinities)
        return options

    @property
    def _pins(self) -> bool:
        """Whether threads are pinned, see the class."""
        stated = self._threads is not None and self._threads <= len(self._processors)
        return stated and self._concurrency == 1

    @contextlib.contextmanager
    def _pinned(self) -> Iterator[None]:
        if not self._pins:
            yield
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._processors[0]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def _prepare(self, feeds: Mapping[str, NDArray[Any]]) -> tuple[Callable[[], Any], bool]:
        """One request, and whether it returns OrtValues: those have outputs that NumPy has no type for."""
        inputs = {item.name: item for item in self._session.get_inputs()}
        self._names = [item.name for item in self._session.get_outputs()]
        unknown = sorted(set(feeds) - set(inputs))
        missing = sorted(set(inputs) - set(feeds))
        if unknown or missing:
            what = [f"the model has no input {', '.join(unknown)}"] if unknown else []
            what += [f"nothing is fed to {', '.join(missing)}"] if missing else []
            raise WorkerError("feeds", f"{'; '.join(what)}; its inputs are {', '.join(inputs)}")
        ready = {name: self._feed(name, inputs[name].type, value) for name, value in feeds.items()}
        session = self._session
        # No functions of our own: the frame of one keeps the session in its closure, also when it is cleared.
        if not any(item.type in arrays.AS_BITS for item in session.get_outputs()):
            return functools.partial(session.run, None, ready), False
        make = self._ort.OrtValue.ortvalue_from_numpy
        values = {n: v if type(v).__name__ == "OrtValue" else make(v) for n, v in ready.items()}
        return functools.partial(session.run_with_ort_values, self._names, values), True

    def _feed(self, name: str, kind: str, value: NDArray[Any]) -> Any:
        import numpy as np

        if kind not in arrays.AS_BITS:
            return arrays.aligned(value)
        if value.dtype == np.float32 and kind == arrays.BFLOAT16:
            value = arrays.rounded_to_bfloat16(value)
        value = arrays.as_bits(value)
        if value.dtype not in (np.uint8, np.uint16):
            raise WorkerError("feeds", f"input {name} is {kind}, and what is fed to it {value.dtype}")
        try:
            make = self._ort.OrtValue.ortvalue_from_numpy_with_onnx_type
        except AttributeError:
            raise WorkerError("feeds", f"onnxruntime {self._ort.__version__} cannot be fed {kind}") from None
        return make(np.ascontiguousarray(value), arrays.AS_BITS[kind])

    def _request(self) -> Any:
        try:
            done = self._call()
        except Exception as error:
            raise WorkerError("run", f"a request failed: {one_line(error)}") from error
        self._ran = True
        return done

    def outputs(self) -> dict[str, NDArray[Any]]:
        """What one request answers, untimed. bfloat16 is widened to float32, exactly."""
        found: dict[str, NDArray[Any]] = {}
        for at, value in enumerate(self._request()):
            for name, array in arrays.parts(self._names[at], arrays.numpy_of(value) if self._bits else value):
                found[name] = array
        return found

    def timed_request(self) -> float:
        """Seconds of one request, with whatever it allocates or measures."""
        start = time.perf_counter()
        self._request()
        return time.perf_counter() - start

    def block(
        self, *, seconds: float | None, calls: int | None, warmup_calls: int
    ) -> tuple[float, list[float]]:
        """Seconds that the block took, and those of each request in it.

        It ends after `seconds` or after `calls` requests of all callers together, whichever comes first; a
        caller that has begun makes at least one. `warmup_calls` of each caller go before, untimed.
        """
        if (seconds is None and calls is None) or (calls is not None and calls < 1):
            raise ValueError("a block: expected seconds, or at least one call")
        if not self._ran:
            # Allocates, tunes; and threads that it starts must not be pinned as the caller of a block is.
            self._request()
        wait_until_idle()
        tickets = itertools.repeat(0) if calls is None else iter(range(calls))
        if self._concurrency == 1:
            caller = Caller(self._request, self._call)
            self._callers = [caller]
            with self._pinned():
                caller.warm_up(warmup_calls)
                caller.time(tickets, seconds)
            wait_until_idle()
            return caller.stop - caller.start, caller.latencies
        callers = [Caller(self._request, self._call) for _ in range(self._concurrency)]
        self._callers = callers
        together(callers, warmup_calls, tickets, seconds)
        wait_until_idle()
        began = min(caller.start for caller in callers)
        ended = max(caller.stop for caller in callers)
        return ended - began, [seconds for caller in callers for seconds in caller.latencies]

    @property
    def returned(self) -> int:
        """Requests of the present block that have returned; any thread may ask."""
        return sum(caller.warmed + len(caller.latencies) for caller in self._callers)

    def facts(self) -> dict[str, Any]:
        """Versions, providers, where the nodes are, what making it took."""
        nodes: Counter[tuple[str, str]] = Counter()
        with contextlib.suppress(AttributeError, RuntimeError):  # onnxruntime < 1.24
            for part in self._session.get_provider_graph_assignment_info():
                nodes.update((str(part.ep_name), str(node.op_type)) for node in part.get_nodes())
        return {
            "onnxruntime": str(self._ort.__version__),
            "python": platform.python_version(),
            "executable": sys.executable,
            "pid": os.getpid(),
            "providers": list(self._session.get_providers()),
            "available": list(self._ort.get_available_providers()),
            "nodes": [[provider, operator, count] for (provider, operator), count in nodes.items()],
            "import_seconds": self._import_seconds,
            "creation_seconds": self._creation_seconds,
        }

    def stats(self) -> dict[str, Any]:
        """Of ours: counters, and what explain() says. Of stock: empty."""
        if not self._ours:
            return {"counters": {}, "explain": {"nodes": [], "shapes": [], "notes": []}}
        if self._session is None:
            raise WorkerError("closed", "the session is closed")
        tunableop = _package(self._ort)
        told = asdict(tunableop.explain(self._session))
        return {"counters": asdict(tunableop.stats(self._session)), "explain": told}

    def close(self) -> None:
        """Ends the session; ours then saves its cache."""
        self._session = None
        self._call = _closed
        self._callers = []  # each knows the session, and this runner


def _closed() -> Any:
    raise RuntimeError("the session is closed")


def import_seconds(kind: str) -> float:
    """Imports what a side of this kind needs, and returns how long that took.

    Raises WorkerError when something is not there.
    """
    start = time.perf_counter()
    ort = _onnxruntime()  # NumPy, too
    if kind == OURS:
        _package(ort)
    return time.perf_counter() - start


def _onnxruntime() -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise WorkerError("onnxruntime", f"there is no onnxruntime that can be imported: {error}") from error


def _package(ort: Any) -> Any:
    """Our package."""
    version = tuple(int(part) for part in ort.__version__.split(".")[:2])
    if version < PLUGIN_ORT:
        oldest = ".".join(map(str, PLUGIN_ORT))
        raise WorkerError(
            "onnxruntime",
            f"onnxruntime {ort.__version__} cannot load plugin execution providers: {oldest} or newer can",
        )
    try:
        return importlib.import_module("onnxruntime_ep_tunableop")
    except ImportError as error:
        message = f"there is no onnxruntime_ep_tunableop that can be imported: {error}"
        raise WorkerError("package", message) from error
