"""`tunableop serve`: a server for ONNX models."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from . import serve_ray, serve_values
from .command import Command, UsageError

if TYPE_CHECKING:  # they need the extra
    from ..serve.front import FrontSettings
    from ..serve.settings import ModelSettings, ServerSettings

#: Not an option: everyone may read the command lines of processes.
TOKEN_VARIABLE = "TUNABLEOP_SERVE_TOKEN"

_NEEDED = ("starlette", "uvicorn", "httptools", "grpc", "google.protobuf", "prometheus_client")
_MEBIBYTE = 1 << 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="NAME=PATH",
        nargs="*",
        help="a model's name and its .onnx file, or a folder with it or with VERSION/model.onnx",
    )
    parser.add_argument("--repository", metavar="FOLDER", type=Path, help="models as Triton keeps them")
    _add_network(parser)
    _add_limits(parser)
    _add_engine(parser)
    serve_ray.add_arguments(parser)


def _add_network(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("network")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    for name, port in (("http", 8000), ("grpc", 8001)):
        group.add_argument(
            f"--{name}-port",
            metavar="PORT",
            type=serve_values.port,
            default=port,
            help=f"0: a free one; off: none (default: {port})",
        )
    group.add_argument("--tls-certificate", metavar="FILE", type=Path, help="in PEM, with its chain")
    group.add_argument("--tls-key", metavar="FILE", type=Path, help="in PEM")
    group.add_argument(
        "--tls-client-ca", metavar="FILE", type=Path, help="clients must show a certificate that it signed"
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help=f"clients must show the token in it, as 'authorization: Bearer'; also ${TOKEN_VARIABLE}",
    )
    group.add_argument("--no-control", action="store_true", help="clients may not load and unload models")
    group.add_argument(
        "--access-log",
        metavar="FILE",
        default="-",
        help="a line of JSON for each request; -: standard error; off (default: -)",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--max-body-mib",
        metavar="MIB",
        type=serve_values.positive,
        default=64.0,
        help="of a request (default: 64)",
    )
    group.add_argument(
        "--max-requests",
        metavar="N",
        type=serve_values.count,
        default=1024,
        help="at a time, those whose body still comes among them (default: 1024)",
    )
    group.add_argument(
        "--body-seconds",
        metavar="S",
        type=serve_values.positive,
        default=60.0,
        help="for a body to arrive (default: 60)",
    )
    group.add_argument(
        "--answer-seconds",
        metavar="S",
        type=serve_values.positive,
        default=120.0,
        help="for a client to take the next part of its answer (default: 120)",
    )
    group.add_argument(
        "--idle-seconds",
        metavar="S",
        type=serve_values.positive,
        default=300.0,
        help="for the next request on a connection (default: 300)",
    )
    group.add_argument(
        "--max-connections",
        metavar="N",
        type=serve_values.count,
        help="of REST, and of gRPC (default: what the limit of open files allows)",
    )
    group.add_argument(
        "--grace-seconds",
        metavar="S",
        type=serve_values.positive,
        default=30.0,
        help="after TERM, for what was accepted (default: 30)",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models", "For every model, but for what its config.json says.")
    group.add_argument("--max-batch", metavar="ROWS", type=int, help="that are run together (default: 32)")
    group.add_argument(
        "--max-delay-ms", metavar="MS", type=float, help="a request waits for others (default: 2)"
    )
    group.add_argument("--queue-size", metavar="N", type=int, help="requests that may wait (default: 256)")
    group.add_argument("--instances", metavar="N", type=int, help="runs at a time (default: 1)")
    group.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="of a run; 0: as many as there are cores, or a container may use (default: 0)",
    )
    group.add_argument(
        "--versions",
        metavar="WHICH",
        type=serve_values.versions,
        help="latest, all, or 1,3 (default: latest)",
    )
    group.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        help="an option of sessions (tuning=online ...); may be given again (default: tuning=background)",
    )
    group.add_argument("--stock", action="store_true", help="without this package's provider, to compare")
    group.add_argument(
        "--state",
        metavar="FOLDER",
        type=Path,
        help="where tuning results are kept (default: tunableop/serve in $XDG_STATE_HOME or ~/.local/state)",
    )
    group.add_argument(
        "--save-every",
        metavar="S",
        type=float,
        default=60.0,
        help="seconds; 0: only at the end (default: 60)",
    )
    group.add_argument(
        "--warm",
        metavar="FILE.json",
        type=Path,
        help='runs before a model is ready: [{"input": [1, 128]}], or {"NAME": [...]}',
    )
    group.add_argument(
        "--warm-from", choices=("cache",), help="before a model is ready, measure what its cache has seen"
    )


def _need_extra() -> None:
    for module in _NEEDED:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(
                f"a server needs {module}, which is not here ({error}): "
                "pip install 'onnxruntime-ep-tunableop[serve]'"
            ) from None


def _front_settings(given: argparse.Namespace) -> FrontSettings:
    from ..serve.front import FrontSettings
    from ..serve.security import Tls

    if given.http_port is None and given.grpc_port is None:
        raise UsageError("--http-port and --grpc-port are both off: nothing would be served")
    if (given.tls_certificate is None) != (given.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key go together")
    if given.tls_client_ca is not None and given.tls_key is None:
        raise UsageError("--tls-client-ca needs --tls-certificate and --tls-key")
    tls = None
    if given.tls_key is not None:
        tls = Tls(given.tls_certificate, given.tls_key, given.tls_client_ca)
        try:
            tls.context()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise UsageError(f"--tls-certificate, --tls-key, --tls-client-ca: {error}") from error
    return FrontSettings(
        host=given.host,
        http_port=given.http_port,
        grpc_port=given.grpc_port,
        max_body=int(given.max_body_mib * _MEBIBYTE),
        max_requests=given.max_requests,
        body_timeout=given.body_seconds,
        answer_timeout=given.answer_seconds,
        idle_timeout=given.idle_seconds,
        max_connections=given.max_connections,
        grace=given.grace_seconds,
        control=not given.no_control,
        token=_token(given.token_file),
        tls=tls,
    )


def _token(path: Path | None) -> str | None:
    where = TOKEN_VARIABLE if path is None else f"--token-file: '{path}'"
    if path is None:
        text = os.environ.get(TOKEN_VARIABLE)
        if text is None:
            return None
    else:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token-file: {error}") from error
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{where}: expected a token of ASCII without spaces, found another or nothing")
    return token


def _server_settings(given: argparse.Namespace) -> ServerSettings:
    from ..serve.settings import ServerSettings, SettingsError

    if not given.models and given.repository is None:
        raise UsageError("expected NAME=PATH, or --repository FOLDER, found neither")
    if given.repository is not None and not given.repository.is_dir():
        raise UsageError(f"--repository: expected a folder, found none at '{given.repository}'")
    defaults = _model_defaults(given)
    warm = _read_json("--warm", given.warm) if given.warm is not None else None
    try:
        _check(defaults)
        settings = ServerSettings(
            models=[_model(entry, defaults) for entry in given.models],
            repository=given.repository,
            defaults=defaults,
            save_every=given.save_every,
            warm=() if warm is None else warm,
            warm_from_cache=given.warm_from == "cache",
        )
    except SettingsError as error:
        raise UsageError(str(error)) from error
    if given.state is not None:
        settings = replace(settings, state=given.state)
    if not given.stock:
        _need_writable(settings.state)
    return settings


def _check(defaults: Mapping[str, Any]) -> None:
    """A wrong value is said at once, not by each model, and by the option's own name."""
    from ..serve.settings import SettingsError, model_settings

    for key, value in defaults.items():
        try:
            model_settings("", Path(), {key: value})
        except SettingsError as error:
            option = "option" if key == "options" else key.replace("_", "-")
            said = str(error).removeprefix("model '': ").removeprefix(f"{key}: ")
            raise UsageError(f"--{option}: {said}") from error


def _need_writable(folder: Path) -> None:
    """Else each model would fail at its end."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"--state: expected a folder that can be written to, found '{folder}': {error.strerror or error}"
        ) from error


def _model_defaults(given: argparse.Namespace) -> dict[str, Any]:
    names = ("max_batch", "max_delay_ms", "queue_size", "instances", "threads", "versions")
    defaults = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    options: dict[str, str] = {}
    for entry in given.option or []:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise UsageError(f"--option: expected KEY=VALUE, found '{entry}'")
        options[key] = value
    if options:
        defaults["options"] = options
    if given.stock:
        defaults["stock"] = True
    return defaults


def _model(entry: str, defaults: Mapping[str, Any]) -> ModelSettings:
    from ..serve.settings import model_settings

    name, equals, path = entry.partition("=")
    if not equals or not name or not path:
        raise UsageError(f"expected NAME=PATH, found '{entry}'")
    if not Path(path).exists():
        raise UsageError(f"{name}: expected a file or folder, found none at '{path}'")
    return model_settings(name, Path(path), defaults)


def _read_json(option: str, path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{option}: '{path}': {error}") from error


@contextlib.contextmanager
def _access_log(where: str) -> Iterator[TextIO | None]:
    if where == "off":
        yield None
    elif where == "-":
        yield sys.stderr
    else:
        with contextlib.ExitStack() as stack:
            try:
                stream = stack.enter_context(Path(where).open("a", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"--access-log: {error}") from error
            yield stream


def _run(given: argparse.Namespace) -> int:
    _need_extra()
    if given.engine == "ray":
        serve_ray.need_extra()
    else:
        serve_ray.refuse_options(given)
    logging.getLogger("tunableop").setLevel(logging.INFO)
    from ..serve.heap import keep_little

    keep_little()
    front, server = _front_settings(given), _server_settings(given)
    with _access_log(given.access_log) as stream:
        if given.engine == "ray":
            return asyncio.run(serve_ray.serve_on_ray(given, server, front, stream))
        return asyncio.run(_serve(server, front, stream))


async def _serve(settings: ServerSettings, front: FrontSettings, stream: TextIO | None) -> int:
    from ..serve.access_log import AccessLog
    from ..serve.engine import Engine
    from ..serve.server import serve
    from ..serve.settings import SettingsError

    try:
        engine = await Engine.start(settings)
    except SettingsError as error:
        raise UsageError(str(error)) from error
    log = None if stream is None else AccessLog(stream)
    code = await serve(engine, front, lambda line: print(line, flush=True), log)
    if engine.stuck:
        _leave_at_once(code or int(engine.lost))
    return code


def _leave_at_once(code: int) -> None:
    """Without the exits of threads that are still inside of ONNX Runtime, which would end in a crash."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


COMMAND = Command(
    name="serve",
    help="serve ONNX models over HTTP and gRPC",
    description="Serves models with the Open Inference Protocol v2, REST and gRPC, in this process. What it "
    "measures is kept in --state and shared with other servers that keep theirs there. Prints one line of "
    "JSON with its ports when it accepts requests; TERM or INT ends it when what it accepted is answered, a "
    "second one at once. Exit code 1: something went unanswered.",
    add_arguments=_add_arguments,
    run=_run,
)
