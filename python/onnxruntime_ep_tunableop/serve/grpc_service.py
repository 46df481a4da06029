"""The Open Inference Protocol v2 over gRPC, and gRPC's health service.

`Servicer` and `Health` have the methods, from message to message: they go with the generated
`add_..._to_server`, too. `Router` is what `server` uses: it reads messages itself, so that one that is none
gets an answer in words.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from .. import _core
from .files import connection_limit
from .front import EXTENSIONS, SERVER_NAME, Front, in_thread_if_large, message_of
from .grpc_codec import decode_request, encode_metadata, encode_response, wants_raw
from .model_config import model_config
from .protocol import Kind, ProtocolError
from .records import Record
from .security import check_token
from .statistics import model_statistics
from .tensor_codec import invalid
from .wire import health_pb2
from .wire import open_inference_pb2 as messages
from .wire.health_pb2_grpc import SERVICE as HEALTH_SERVICE
from .wire.open_inference_pb2_grpc import SERVICE

STATUS: dict[Kind, grpc.StatusCode] = {
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.DEADLINE: grpc.StatusCode.DEADLINE_EXCEEDED,
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.FAILED: grpc.StatusCode.INTERNAL,
}

#: Characters: the message travels in a header, where clients take 8 KiB in all, and some are 12 bytes.
_MAX_MESSAGE = 600

_LATE = "the request's message did not arrive in time"
_IDLE = "the stream was without a request for too long"

#: Milliseconds without a call.
_IDLE_CONNECTION = 3_600_000

#: Calls beside inference requests, health checks first of all.
_BESIDE = 64

_LOG = logging.getLogger(__name__)


class Servicer:
    """Errors are raised as ProtocolError."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def ServerLive(self, _request: Any, _context: Any) -> messages.ServerLiveResponse:  # noqa: N802
        """The process answers."""
        return messages.ServerLiveResponse(live=self._front.engine.live())

    async def ServerReady(self, _request: Any, _context: Any) -> messages.ServerReadyResponse:  # noqa: N802
        """Requests are welcome."""
        return messages.ServerReadyResponse(ready=self._front.ready())

    async def ModelReady(  # noqa: N802
        self, request: messages.ModelReadyRequest, _context: Any
    ) -> messages.ModelReadyResponse:
        """To this model."""
        return messages.ModelReadyResponse(
            ready=self._front.engine.model_ready(request.name, request.version)
        )

    async def ServerMetadata(self, _request: Any, _context: Any) -> messages.ServerMetadataResponse:  # noqa: N802
        """Name, version, extensions."""
        return messages.ServerMetadataResponse(
            name=SERVER_NAME, version=_core.__version__, extensions=list(EXTENSIONS)
        )

    async def ModelMetadata(  # noqa: N802
        self, request: messages.ModelMetadataRequest, _context: Any
    ) -> messages.ModelMetadataResponse:
        """Inputs and outputs."""
        return encode_metadata(self._front.engine.metadata(request.name, request.version))

    async def ModelConfig(  # noqa: N802
        self, request: messages.ModelConfigRequest, _context: Any
    ) -> messages.ModelConfigResponse:
        """The same in Triton's words."""
        config = model_config(self._front.engine.metadata(request.name, request.version))
        return messages.ModelConfigResponse(config=messages.ModelConfig(**config))

    async def ModelInfer(  # noqa: N802
        self, request: messages.ModelInferRequest, context: Any
    ) -> messages.ModelInferResponse:
        """One request. A cancelled call gives its place up."""
        with self._front.place():
            return await self.infer(request, context)

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[messages.ModelInferRequest], context: Any
    ) -> AsyncIterator[messages.ModelStreamInferResponse]:
        """Each in its turn; an error of one is its answer, and the stream goes on."""
        async for request in requests:
            try:
                yield messages.ModelStreamInferResponse(
                    infer_response=await self.ModelInfer(request, context)
                )
            except ProtocolError as error:
                yield stream_error(request, error)

    async def infer(self, request: messages.ModelInferRequest, context: Any) -> messages.ModelInferResponse:
        """For who has a place."""
        left = context.time_remaining()
        deadline = None if left is None else time.monotonic() + left
        asked = await in_thread_if_large(request.ByteSize(), decode_request, request, deadline)
        answer = await self._front.infer(asked)
        size = sum(tensor.data.nbytes for tensor in answer.outputs)
        made: messages.ModelInferResponse = await in_thread_if_large(
            size, encode_response, answer, wants_raw(request)
        )
        return made

    async def ModelStatistics(  # noqa: N802
        self, request: messages.ModelStatisticsRequest, _context: Any
    ) -> messages.ModelStatisticsResponse:
        """Counts and times, as far as they are known."""
        known = model_statistics(self._front.engine, request.name, request.version)
        return messages.ModelStatisticsResponse(model_stats=known)

    async def RepositoryIndex(  # noqa: N802
        self, request: messages.RepositoryIndexRequest, _context: Any
    ) -> messages.RepositoryIndexResponse:
        """Every model, or every ready one."""
        message = messages.RepositoryIndexResponse()
        for state in self._front.engine.index():
            if not request.ready or state.state == "READY":
                message.models.add(
                    name=state.name, version=state.version, state=state.state, reason=state.reason
                )
        return message

    async def RepositoryModelLoad(  # noqa: N802
        self, request: messages.RepositoryModelLoadRequest, _context: Any
    ) -> messages.RepositoryModelLoadResponse:
        """From the repository, as it is there."""
        self._front.check_control()
        if request.parameters:
            raise invalid("a model is loaded as it is in the repository: expected no parameters")
        await self._front.engine.load(request.model_name)
        return messages.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(  # noqa: N802
        self, request: messages.RepositoryModelUnloadRequest, _context: Any
    ) -> messages.RepositoryModelUnloadResponse:
        """What it was asked is answered first."""
        self._front.check_control()
        await self._front.engine.unload(request.model_name)
        return messages.RepositoryModelUnloadResponse()


def stream_error(
    request: messages.ModelInferRequest, error: ProtocolError
) -> messages.ModelStreamInferResponse:
    """What a stream has for a request that failed."""
    return messages.ModelStreamInferResponse(
        error_message=message_of(error),
        infer_response=messages.ModelInferResponse(
            model_name=request.model_name, model_version=request.model_version, id=request.id
        ),
    )


class Health:
    """gRPC's own health service."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, _context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Of the server, by no name or its service's."""
        if request.service not in ("", SERVICE):
            raise ProtocolError(Kind.NOT_FOUND, f"expected the service '{SERVICE}' or none")
        status = health_pb2.HealthCheckResponse
        return status(status=status.SERVING if self._front.ready() else status.NOT_SERVING)


class Router(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Every method of both services; those that are not there are answered in words."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._methods: dict[str, tuple[Callable[..., Any], Any]] = {}
        self._servicer = servicer = Servicer(front)
        for method in messages.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods:
            read = getattr(messages, method.input_type.name).FromString
            # Its place is taken before its message is read.
            name = "infer" if method.name == "ModelInfer" else method.name
            self._methods[f"/{SERVICE}/{method.name}"] = (getattr(servicer, name), read)
        check = (Health(front).Check, health_pb2.HealthCheckRequest.FromString)
        self._methods[f"/{HEALTH_SERVICE}/Check"] = check
        # So that probes need no token.
        self._open = {f"/{HEALTH_SERVICE}/Check", f"/{SERVICE}/ServerLive", f"/{SERVICE}/ServerReady"}

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call; bytes come in, and go out."""
        path = handler_call_details.method
        if path not in self._methods:
            return grpc.stream_unary_rpc_method_handler(self._absent(path))
        method, read = self._methods[path]
        if path.endswith("/ModelStreamInfer"):
            return grpc.stream_stream_rpc_method_handler(self._stream(path, read))
        # A unary call is a stream of one message: so the message can be waited for, and not for ever.
        return grpc.stream_unary_rpc_method_handler(self._unary(path, method, read))

    def _unary(self, path: str, method: Callable[..., Any], read: Any) -> Callable[..., Awaitable[bytes]]:
        infers = path.endswith("/ModelInfer")

        async def answer(_raw: Any, context: Any) -> bytes:
            record = Record("grpc", path.rpartition("/")[2], peer=context.peer())
            task = asyncio.current_task()
            assert task is not None
            held = contextlib.ExitStack()
            # The task ends when the answer is taken, or the call is over: not with this function. A client
            # that takes nothing keeps its place until its deadline, or as long as it answers to pings: gRPC
            # lets nobody but the client end a call whose answer is written.
            task.add_done_callback(lambda _: held.close())
            try:
                self._admit(path, context)
                if infers:
                    held.enter_context(self._front.place())
                with self._front.listening(self._front.settings.body_timeout, _LATE):
                    raw = await context.read()
                if raw is grpc.aio.EOF:
                    raise invalid("expected a message, found none")
                record.bytes_in = len(raw)
                request = await in_thread_if_large(len(raw), _read, read, raw)
                _describe(record, request)
                del raw
                result: bytes = (await method(request, context)).SerializeToString()
                record.done("ok", len(result))
                return result
            except asyncio.CancelledError:
                record.done("cancelled")
                raise
            except Exception as error:
                known = _as_protocol_error(path, error)
                record.done(known.kind.value, message=message_of(known))
                await _abort(context, known)
                raise AssertionError("abort raises") from None
            finally:
                self._front.record(record)

        return answer

    def _stream(self, path: str, read: Any) -> Callable[..., Awaitable[None]]:
        front = self._front

        async def answer(_raw: Any, context: Any) -> None:
            record = Record("grpc", path.rpartition("/")[2], peer=context.peer())
            sent = 0
            try:
                self._admit(path, context)
                while True:
                    with front.listening(front.settings.idle_timeout, _IDLE):
                        raw = await context.read()
                    if raw is grpc.aio.EOF:
                        break
                    record.bytes_in += len(raw)
                    request = await in_thread_if_large(len(raw), _read, read, raw)
                    _describe(record, request)
                    sent += await self._answer_in_stream(request, context)
                    del raw, request
                record.done("ok", sent)
            except asyncio.CancelledError:
                record.done("cancelled", sent)
                raise
            except Exception as error:
                known = _as_protocol_error(path, error)
                record.done(known.kind.value, sent, message_of(known))
                await _abort(context, known)
            finally:
                front.record(record)

        return answer

    async def _answer_in_stream(self, request: Any, context: Any) -> int:
        """Bytes that were written."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._front.place())
                answer = messages.ModelStreamInferResponse(
                    infer_response=await self._servicer.infer(request, context)
                )
            except ProtocolError as error:
                answer = stream_error(request, error)
            raw = answer.SerializeToString()
            await context.write(raw)
        return len(raw)

    def _absent(self, path: str) -> Callable[..., Awaitable[bytes]]:
        async def answer(_raw: Any, context: Any) -> bytes:
            await context.abort(
                grpc.StatusCode.UNIMPLEMENTED, f"{path[:200]}: this server offers no such method"
            )
            raise AssertionError("abort raises")

        return answer

    def _admit(self, path: str, context: Any) -> None:
        if path not in self._open:
            metadata = dict(context.invocation_metadata() or ())
            check_token(self._front.settings.token, metadata.get("authorization"))


def _read(read: Any, raw: bytes) -> Any:
    try:
        return read(raw)
    except Exception as error:  # DecodeError is a class of protobuf's implementation
        raise invalid(f"expected a message of the protocol, found other bytes: {message_of(error)}") from None


def _describe(record: Record, request: Any) -> None:
    record.model = getattr(request, "model_name", "") or getattr(request, "name", "")
    record.version = getattr(request, "model_version", "") or getattr(request, "version", "")
    record.id = getattr(request, "id", "")


def _as_protocol_error(path: str, error: Exception) -> ProtocolError:
    if isinstance(error, ProtocolError):
        return error
    _LOG.error("%s", path, exc_info=error)
    return ProtocolError(Kind.FAILED, f"the server failed: {message_of(error)}")


async def _abort(context: Any, error: ProtocolError) -> None:
    trailing: tuple[tuple[str, str], ...] = ()
    if error.kind in (Kind.BUSY, Kind.UNAVAILABLE):
        trailing = (("retry-after", str(max(1, math.ceil(error.retry_after or 1.0)))),)
    await context.abort(STATUS[error.kind], message_of(error)[:_MAX_MESSAGE], trailing)


def make_server(front: Front) -> tuple[Any, int]:
    """A server that is not started, and its port. OSError or RuntimeError where the port is taken."""
    settings = front.settings
    server = grpc.aio.server(
        maximum_concurrent_rpcs=settings.max_requests + _BESIDE,
        options=[
            ("grpc.max_receive_message_length", settings.max_body),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),  # a port that is taken is an error
            ("grpc.server_handshake_timeout_ms", _milliseconds(settings.body_timeout)),
            ("grpc.max_connection_idle_ms", _IDLE_CONNECTION),
            ("grpc.max_allowed_incoming_connections", connection_limit(settings)),
            ("grpc.keepalive_time_ms", 60_000),  # finds connections whose other end is gone
            ("grpc.keepalive_timeout_ms", 20_000),
            # By itself it hangs up on clients that ask more often than every five minutes.
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ],
    )
    server.add_generic_rpc_handlers((Router(front),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.grpc_port}"
    if settings.tls is None:
        return server, server.add_insecure_port(address)
    return server, server.add_secure_port(address, _credentials(settings.tls))


def _milliseconds(seconds: float) -> int:
    return max(1, min(int(seconds * 1e3), 2**31 - 1))


def _credentials(tls: Any) -> Any:
    client_ca = None if tls.client_ca is None else tls.client_ca.read_bytes()
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())],
        root_certificates=client_ca,
        require_client_auth=client_ca is not None,
    )
