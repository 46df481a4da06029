"""The Open Inference Protocol v2 over HTTP, as a Starlette application."""

from __future__ import annotations

import json
import logging
import math
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import _core
from .front import EXTENSIONS, SERVER_NAME, ClientGoneError, Front, in_thread_if_large, message_of
from .model_config import model_config
from .protocol import InferRequest, InferResponse, Kind, ModelMetadata, ProtocolError, TensorMetadata
from .rest_codec import decode_request, encode_response, read_json
from .rest_records import BODY_READ, HELD, MESSAGE, OPERATION, OUTCOME, REQUEST_ID, Recorded
from .security import check_token
from .statistics import model_statistics
from .tensor_codec import invalid, short

HEADER_LENGTH = "Inference-Header-Content-Length"

STATUS: dict[Kind, int] = {
    Kind.INVALID: 400,
    Kind.NOT_FOUND: 404,
    Kind.TOO_LARGE: 413,
    Kind.BUSY: 429,
    Kind.UNAVAILABLE: 503,
    Kind.DEADLINE: 504,
    Kind.UNAUTHENTICATED: 401,
    Kind.FAILED: 500,
}

#: nginx's: the client closed the connection. Nobody reads it but the access log.
_CLIENT_GONE = 499

#: '' is no header at all. The last one is what curl says of whatever --data gives it: nobody sends forms.
_CONTENT_TYPES = (
    "",
    "application/json",
    "application/octet-stream",
    "application/vnd.inference-binary",
    "application/x-www-form-urlencoded",
)

_LOG = logging.getLogger(__name__)

_Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class Rest:
    """The endpoints. `application` is what a server runs."""

    def __init__(self, front: Front, metrics: Callable[[], tuple[bytes, str]]) -> None:
        """`metrics` gives the text of /metrics and its content type."""
        self._front = front
        self._metrics = metrics
        routed = Starlette(routes=self._routes(), exception_handlers={HTTPException: self._http_error})
        routed.router.redirect_slashes = False  # to a host that the client named
        self.application = Recorded(routed, front.record)

    def _routes(self) -> list[Route]:
        def route(path: str, endpoint: _Endpoint, method: str = "GET", free: bool = False) -> Route:
            operation = endpoint.__name__.lstrip("_")
            return Route(path, self._guarded(operation, endpoint, free), methods=[method])

        routes = [
            route("/v2", self._server),
            # Probes show no token.
            route("/v2/health/live", self._live, free=True),
            route("/v2/health/ready", self._ready, free=True),
            route("/v2/repository/index", self._index, "POST"),
            route("/v2/repository/index", self._index),
            route("/v2/repository/models/{name}/load", self._load, "POST"),
            route("/v2/repository/models/{name}/unload", self._unload, "POST"),
            route("/metrics", self._metrics_text),
            *(
                route(f"/v2/{kind}sharedmemory{{rest:path}}", self._absent, method)
                for kind in ("system", "cuda")
                for method in ("GET", "POST")
            ),
            route("/v2/", self._server),
            route("/v2/models/stats", self._statistics),
        ]
        for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
            routes += [
                route(model, self._model),
                route(f"{model}/ready", self._model_ready),
                route(f"{model}/config", self._config),
                route(f"{model}/stats", self._statistics),
                route(f"{model}/tuning", self._tuning),
                route(f"{model}/infer", self._infer, "POST"),
            ]
        return routes

    def _guarded(self, operation: str, endpoint: _Endpoint, free: bool) -> _Endpoint:
        """Every error becomes an answer in the protocol's form."""

        async def guarded(request: Request) -> Response:
            request.scope[OPERATION] = operation
            try:
                if not free:
                    check_token(self._front.settings.token, request.headers.get("authorization"))
                response = await endpoint(request)
                request.scope[OUTCOME] = "ok"
                return response
            except ProtocolError as error:
                return self._failed(request, error)
            except (ClientDisconnect, ClientGoneError):
                request.scope[OUTCOME] = "cancelled"
                return Response(status_code=_CLIENT_GONE)
            except Exception as error:
                _LOG.exception("%s %s", request.method, request.scope["path"])
                failure = ProtocolError(Kind.FAILED, f"the server failed: {message_of(error)}")
                return self._failed(request, failure)

        return guarded

    def _failed(self, request: Request, error: ProtocolError) -> Response:
        request.scope[OUTCOME] = error.kind.value
        request.scope[MESSAGE] = message_of(error)
        response = error_response(error)
        _close_if_unread(request, response)
        return response

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        # Not request.url: the client's Host header is in it, and may make it another one.
        text = f"{request.method} {request.scope['path'][:200]}: {error.detail}"
        response = _Json({"error": text}, status_code=error.status_code, headers=error.headers)
        _close_if_unread(request, response)
        return response

    async def _server(self, _request: Request) -> Response:
        return _Json({"name": SERVER_NAME, "version": _core.__version__, "extensions": list(EXTENSIONS)})

    async def _live(self, _request: Request) -> Response:
        live = self._front.engine.live()
        return _Json({"live": live}, status_code=200 if live else 503)

    async def _ready(self, _request: Request) -> Response:
        ready = self._front.ready()
        return _Json({"ready": ready}, status_code=200 if ready else 503)

    async def _model_ready(self, request: Request) -> Response:
        name, version = _model_of(request)
        ready = self._front.engine.model_ready(name, version)
        return _Json({"name": name, "ready": ready}, status_code=200 if ready else 503)

    async def _model(self, request: Request) -> Response:
        return _Json(_metadata(self._front.engine.metadata(*_model_of(request))))

    async def _config(self, request: Request) -> Response:
        return _Json(model_config(self._front.engine.metadata(*_model_of(request))))

    async def _statistics(self, request: Request) -> Response:
        name, version = request.path_params.get("name", ""), request.path_params.get("version", "")
        return _Json({"model_stats": model_statistics(self._front.engine, name, version)})

    async def _tuning(self, request: Request) -> Response:
        return _Json(dict(self._front.engine.tuning(*_model_of(request))))

    async def _index(self, request: Request) -> Response:
        asked = read_json(body) if (body := await self._body(request)) else {}
        states = [
            state for state in self._front.engine.index() if not asked.get("ready") or state.state == "READY"
        ]
        return _Json(
            [
                {"name": state.name, "version": state.version, "state": state.state, "reason": state.reason}
                for state in states
            ]
        )

    async def _load(self, request: Request) -> Response:
        self._front.check_control()
        asked = read_json(body) if (body := await self._body(request)) else {}
        if asked.get("parameters"):
            raise invalid("a model is loaded as it is in the repository: expected no parameters")
        await self._front.engine.load(_model_of(request)[0])
        return _Json({})

    async def _unload(self, request: Request) -> Response:
        self._front.check_control()
        await self._body(request)
        await self._front.engine.unload(_model_of(request)[0])
        return _Json({})

    async def _absent(self, _request: Request) -> Response:
        raise ProtocolError(
            Kind.NOT_FOUND, "shared memory is not offered here: send the tensors with the request"
        )

    async def _metrics_text(self, _request: Request) -> Response:
        text, content_type = self._metrics()
        return Response(text, headers={"content-type": content_type})

    async def _infer(self, request: Request) -> Response:
        _check_content_type(request.headers.get("content-type"))
        length = _header_length(request.headers.get(HEADER_LENGTH))
        name, version = _model_of(request)
        request.scope[HELD].enter_context(self._front.place())
        body = await self._body(request)
        asked: InferRequest = await in_thread_if_large(len(body), decode_request, name, version, body, length)
        request.scope[REQUEST_ID] = asked.id
        answer = await self._front.infer(asked, _disconnect(request))
        size = sum(tensor.data.nbytes for tensor in answer.outputs)
        made: Response = await in_thread_if_large(size, _answer, asked, answer)
        return made

    async def _body(self, request: Request) -> bytes:
        """Not longer than allowed, not later than allowed, unpacked."""
        limit = self._front.settings.max_body
        declared = request.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
            raise _too_large(limit)
        unpack = _Unpacker(request.headers.get("content-encoding"), limit)

        async def read() -> bytes:
            async for chunk in request.stream():
                unpack.add(chunk)
            return unpack.end()

        late = "the request's body did not arrive in time"
        return await self._front.first(read(), late, self._front.settings.body_timeout)


class _Unpacker:
    """Collects a body; gzip and deflate grow no further than the limit."""

    def __init__(self, encoding: str | None, limit: int) -> None:
        if encoding not in (None, "", "identity", "gzip", "deflate"):
            raise invalid(f"content-encoding: expected gzip, deflate or none, found {short(encoding)}")
        packed = encoding in ("gzip", "deflate")
        # 32: zlib finds out whether it is zlib's or gzip's form.
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32) if packed else None
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        if self._stream is not None and chunk:
            try:
                chunk = self._stream.decompress(chunk, self._limit - self._size + 1)
            except zlib.error as error:
                raise invalid(f"the body is not what its content-encoding says: {error}") from None
            if self._stream.unused_data:  # which zlib would collect without end
                raise invalid("the body goes on after the end of its compressed form")
        self._size += len(chunk)
        if self._size > self._limit:
            raise _too_large(self._limit)
        self._parts.append(chunk)

    def end(self) -> bytes:
        if self._stream is not None and self._size and not self._stream.eof:
            raise invalid("the body ends before its compressed form does")
        return b"".join(self._parts)


def _close_if_unread(request: Request, response: Response) -> None:
    """A body that is refused is not waited for."""
    has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
    if has_body and not request.scope.get(BODY_READ, False):
        response.headers["connection"] = "close"


def error_response(error: ProtocolError) -> Response:
    """{"error": ...} with the status of its kind."""
    headers: dict[str, str] = {}
    if error.kind in (Kind.BUSY, Kind.UNAVAILABLE):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after or 1.0)))
    if error.kind is Kind.UNAUTHENTICATED:
        headers["www-authenticate"] = "Bearer"
    return _Json({"error": message_of(error)}, status_code=STATUS[error.kind], headers=headers)


class _Json(JSONResponse):
    """In ASCII: half a surrogate pair, which a client may send as an escape, is no UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _answer(asked: InferRequest, answer: InferResponse) -> Response:
    body, length = encode_response(asked, answer)
    if length is None:
        return Response(body, media_type="application/json")
    return Response(body, media_type="application/octet-stream", headers={HEADER_LENGTH: str(length)})


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _model_of(request: Request) -> tuple[str, str]:
    return request.path_params["name"], request.path_params.get("version", "")


def _too_large(limit: int) -> ProtocolError:
    return ProtocolError(Kind.TOO_LARGE, f"expected a body of at most {limit} bytes, found a larger one")


def _check_content_type(value: str | None) -> None:
    kind = (value or "").partition(";")[0].strip().lower()
    if kind not in _CONTENT_TYPES:
        raise invalid(
            f"content-type: expected application/json or application/octet-stream, found {short(value)}"
        )


def _header_length(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 20):
        raise invalid(f"{HEADER_LENGTH}: expected a whole number, found {short(value)}")
    return int(value)


def _metadata(model: ModelMetadata) -> dict[str, Any]:
    def tensors(of: Any) -> list[dict[str, Any]]:
        return [_tensor(tensor) for tensor in of]

    return {
        "name": model.name,
        "versions": list(model.versions),
        "platform": model.platform,
        "inputs": tensors(model.inputs),
        "outputs": tensors(model.outputs),
    }


def _tensor(tensor: TensorMetadata) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
