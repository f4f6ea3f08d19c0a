"""The protocol by gRPC, thin over the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from intaglio.errors import InputError
from intaglio.serve.described import (
    check_control,
    is_model_ready,
    model_config,
    model_metadata,
    model_stats,
    regions_of,
)
from intaglio.serve.grpc_messages import DATA_TYPES, SERVICE, message
from intaglio.serve.grpc_tensors import parameters_of, request_of, response_of
from intaglio.serve.messages import RequestError
from intaglio.serve.service import Service, as_request_error
from intaglio.serve.settings import Listen
from intaglio.serve.trace import trace_id_of

HEAD = 1 << 16
"""Bytes that a message may have above the limit of bodies, for names and shapes."""

_OPEN = ("ServerLive", "ServerReady")
"""Calls that need no key: those who watch over a server have none."""

_CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    413: "RESOURCE_EXHAUSTED", 422: "INVALID_ARGUMENT", 499: "CANCELLED", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}  # fmt: skip
"""The codes of gRPC for the statuses of HTTP; all others are INTERNAL."""

Call = Callable[[Any, Any], Awaitable[Any]]


class GrpcServer:
    """The gRPC side of a server."""

    def __init__(self, service: Service, listen: Listen) -> None:
        """Bind the port; raises InputError where that is not possible."""
        limit = service.settings.max_body + HEAD
        options = [("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", -1)]
        options += [("grpc.so_reuseport", int(listen.workers > 1)), ("grpc.max_metadata_size", HEAD)]
        self._server: Any = grpc.aio.server(options=options, maximum_concurrent_rpcs=listen.max_connections)
        self._server.add_generic_rpc_handlers((Handlers(service),))
        self.port = self._bind(listen)

    def _bind(self, listen: Listen) -> int:
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        address = f"{host}:{listen.grpc_port}"
        try:
            if listen.certificate is None or listen.certificate_key is None:
                return self._server.add_insecure_port(address)
            pair = (Path(listen.certificate_key).read_bytes(), Path(listen.certificate).read_bytes())
            return self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        except RuntimeError:
            raise InputError(f"cannot listen on {address}; choose another port with --grpc-port") from None

    async def start(self) -> None:
        """Take calls."""
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Take no calls any more; those under way have some seconds."""
        await self._server.stop(grace)


class Handlers(grpc.GenericRpcHandler):
    """Finds what answers a call. Messages come as bytes, so that they are counted before they are parsed."""

    def __init__(self, service: Service) -> None:
        self._calls = Calls(service)

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call; None where there is no such call."""
        service, _, name = handler_call_details.method.lstrip("/").partition("/")
        if service != SERVICE:
            return None
        if name == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(self._calls.stream)
        if name not in CALLS:
            return None
        return grpc.unary_unary_rpc_method_handler(self._calls.unary(name))


class Calls:
    """All calls of the protocol for one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def unary(self, name: str) -> Call:
        """A function that answers one kind of call, from bytes to bytes."""
        kind = message(CALLS[name][0])
        answer = getattr(self, CALLS[name][1])

        async def handle(data: bytes, context: Any) -> bytes:
            try:
                self._check_key(name, context)
                return await self._counted(kind, data, context, answer)
            except Exception as error:
                found = as_request_error(error)
                await context.abort(code_of(found), str(found), _retry(found))
                raise AssertionError from None  # abort raises

        return handle

    async def stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Inferences in turn; an error is an answer too, and the stream goes on."""
        kind, response = message("InferRequest"), message("StreamResponse")
        try:
            self._check_key("ModelStreamInfer", context)
        except RequestError as error:
            await context.abort(code_of(error), str(error))
        async for data in requests:
            try:
                found = await self._counted(kind, data, context, self._infer)
                yield response(infer_response=message("InferResponse").FromString(found)).SerializeToString()
            except Exception as error:
                yield response(error_message=str(as_request_error(error))).SerializeToString()

    def _check_key(self, name: str, context: Any) -> None:
        if not self._service.settings.api_keys or name in _OPEN:
            return
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        given = metadata.get("authorization", "")
        key = given[7:] if given[:7].lower() == "bearer " else metadata.get("x-api-key", "")
        if not self._service.is_allowed(key):
            raise RequestError("a valid API key is needed: authorization: Bearer KEY", 401)

    async def _counted(self, kind: Any, data: bytes, context: Any, answer: Call) -> bytes:
        """Parse a message, whose bytes count as memory until its answer is there."""
        size = 2 * len(data)
        self._service.reserve(size)
        try:
            try:
                request = kind.FromString(data)
            except DecodeError:
                raise RequestError("the bytes are no message of the protocol") from None
            return (await answer(request, context)).SerializeToString()
        finally:
            self._service.release(size)

    async def _infer(self, given: Any, context: Any) -> Any:
        service = self._service
        service.repository.find(given.model_name, given.model_version)
        request = request_of(given, service.regions)
        left = context.time_remaining()
        if left is not None:
            request.timeout = min(request.timeout or left, max(left, 0.001))
        parent = next((value for key, value in context.invocation_metadata() or () if key == "traceparent"), None)
        trace_id = trace_id_of(parent) if parent or request.is_traced else ""
        answer = await service.infer(given.model_name, given.model_version, request, trace_id=trace_id)
        return response_of(answer, service.regions)

    async def _live(self, given: Any, context: Any) -> Any:
        return message("Live")(live=True)

    async def _ready(self, given: Any, context: Any) -> Any:
        return message("Ready")(ready=self._service.repository.is_ready)

    async def _model_ready(self, given: Any, context: Any) -> Any:
        return message("Ready")(ready=is_model_ready(self._service, given.name, given.version))

    async def _server(self, given: Any, context: Any) -> Any:
        return message("Server")(**self._service.metadata())

    async def _model(self, given: Any, context: Any) -> Any:
        found = model_metadata(self._service, given.name, given.version)
        sides = {
            side: [{name: each[name] for name in ("name", "datatype", "shape")} for each in found[side]]
            for side in ("inputs", "outputs")
        }
        return message("ModelMetadata")(
            name=found["name"], versions=found["versions"], platform=found["platform"], **sides
        )

    async def _config(self, given: Any, context: Any) -> Any:
        found = model_config(self._service, given.name, given.version)
        for side in ("input", "output"):
            found[side] = [
                {"name": each["name"], "dims": each["dims"], "data_type": DATA_TYPES[each["data_type"][5:]]}
                for each in found[side]
            ]
        return message("ConfigResponse")(config=message("Config")(**found))

    async def _statistics(self, given: Any, context: Any) -> Any:
        return message("Statistics")(model_stats=await model_stats(self._service, given.name, given.version))

    async def _index(self, given: Any, context: Any) -> Any:
        return message("Index")(models=self._service.repository.index(given.ready))

    async def _load(self, given: Any, context: Any) -> Any:
        check_control(self._service, parameters_of(given.parameters))
        await self._service.control("load", given.model_name)
        return message("Empty")()

    async def _unload(self, given: Any, context: Any) -> Any:
        parameters = parameters_of(given.parameters)
        parameters.pop("unload_dependents", None)
        check_control(self._service, parameters)
        await self._service.control("unload", given.model_name)
        return message("Empty")()

    async def _regions(self, given: Any, context: Any) -> Any:
        found = message("Regions")()
        for each in regions_of(self._service).status(given.name):
            found.regions.add(key=each["name"], value=message("Region")(**each))
        return found

    async def _register(self, given: Any, context: Any) -> Any:
        regions_of(self._service).register(given.name, given.key, given.offset, given.byte_size)
        return message("Empty")()

    async def _unregister(self, given: Any, context: Any) -> Any:
        regions_of(self._service).unregister(given.name)
        return message("Empty")()


CALLS = {
    "ServerLive": ("Empty", "_live"),
    "ServerReady": ("Empty", "_ready"),
    "ModelReady": ("Named", "_model_ready"),
    "ServerMetadata": ("Empty", "_server"),
    "ModelMetadata": ("Named", "_model"),
    "ModelInfer": ("InferRequest", "_infer"),
    "ModelConfig": ("Named", "_config"),
    "ModelStatistics": ("Named", "_statistics"),
    "RepositoryIndex": ("IndexRequest", "_index"),
    "RepositoryModelLoad": ("Control", "_load"),
    "RepositoryModelUnload": ("Control", "_unload"),
    "SystemSharedMemoryStatus": ("Named", "_regions"),
    "SystemSharedMemoryRegister": ("Region", "_register"),
    "SystemSharedMemoryUnregister": ("Named", "_unregister"),
}
"""The calls that have one answer: the message that asks, and who answers."""


def code_of(error: RequestError) -> Any:
    """The code of gRPC for an error."""
    return getattr(grpc.StatusCode, _CODES.get(error.status, "INTERNAL"))


def _retry(error: RequestError) -> tuple[tuple[str, str], ...]:
    return () if error.retry_after is None else (("retry-after", str(error.retry_after)),)
