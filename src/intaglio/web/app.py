"""The page's server as an ASGI application: routes below `/api`, and who may ask."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from intaglio.errors import InputError, IntaglioError, LimitError, UnsupportedError
from intaglio.processor import usable_cores
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import host_target
from intaglio.tools.document.writing import document_pieces
from intaglio.version import __version__
from intaglio.web.arguments import described_commands, numbers_by_name
from intaglio.web.costs import cost_rows
from intaglio.web.details import node_details, tensor_array, value_details
from intaglio.web.differences import difference_json
from intaglio.web.jobs import Job, error_json
from intaglio.web.opening import Opened, open_model
from intaglio.web.session import ConflictError, NotAllowedError, OpenModel, Session
from intaglio.web.standalone import page_file, page_names, policy, script_safe
from intaglio.web.tensors import tensor_facts
from intaglio.web.work import profile_work, run_work, source_work, tool_work, type_texts

TOKEN = "x-intaglio-token"
MOST_JSON = 64 << 20
"""Bytes of one request of JSON; arrays are in it."""
MOST_UPLOAD = (1 << 31) - 1
SLOWEST = 1 << 16
"""Bytes in a second that a client must send at least, after half a minute."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
          ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}  # fmt: skip
_SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}

Handler = Callable[[Request], Awaitable[Response]]
Json = dict[str, Any]


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


class Guard:
    """Refuses requests of other machines' pages, of other origins, and below `/api` those without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it before its body is read."""
        if scope["type"] != "http":
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            status, text = refusal
            await _failure(status, text)(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *((name.encode(), value.encode()) for name, value in
                                      _SAFE.items() if name.encode() not in known)]  # fmt: skip
            await send(message)

        await self._app(scope, receive, safely)

    def _refusal(self, path: str, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if _without_port(host) not in LOOPBACK:
            return 403, "only names of this machine are answered: open the address that the command printed"
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") != f"http://{host}":
            return 403, "requests of pages of other sites are not answered"
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return 403, "requests of pages of other sites are not answered"
        if path.startswith("/api") and not hmac.compare_digest(headers.get(TOKEN.encode(), b""), self._token):
            return 401, "the token is missing or wrong: open the address that the command printed"
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _failure(status: int, text: str, kind: str = "") -> JSONResponse:
    error = {"message": text, "where": "", "remedy": "", "kind": kind}
    closing = {"connection": "close"} if status in (401, 403, 408, 413) else {}
    return JSONResponse({"error": error}, status, {**_SAFE, **closing})


def make_app(session: Session, token: str) -> ASGIApp:
    """The application of a session; every request below `/api` must have the token."""
    api = Api(session)
    handlers: Any = {HTTPException: _as_json, Exception: _as_json, IntaglioError: _as_json}
    return Guard(Starlette(routes=api.routes(), exception_handlers=handlers), token)


async def _as_json(request: Request, error: Exception) -> Response:
    del request
    if isinstance(error, HTTPException):
        return _failure(error.status_code, str(error.detail))
    return JSONResponse({"error": error_json(error)}, _status(error))


def _status(error: Exception) -> int:
    kinds: list[tuple[type[Exception], int]] = [
        (NotAllowedError, 403), (ConflictError, 409), (LimitError, 413), (InputError, 400), (UnsupportedError, 501),
        (IntaglioError, 422),
    ]  # fmt: skip
    return next((status for kind, status in kinds if isinstance(error, kind)), 500)


def answer(data: Any, status: int = 200) -> Response:
    """JSON in which no character can end a script, however somebody may show it."""
    return Response(script_safe(data), status, media_type="application/json")


async def body_of(request: Request, most: int, take: Callable[[bytes], object]) -> int:
    """Give the body of a request on piece by piece; raises LimitError, or InputError where it comes too slowly."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 18 or int(announced) > most:
        raise LimitError(f"the request is larger than {most:,} bytes")
    size = 0
    try:
        async with asyncio.timeout(30 + most / SLOWEST):
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    raise LimitError(f"the request is larger than {most:,} bytes")
                take(piece)
    except (TimeoutError, ClientDisconnect):
        raise InputError("the request did not come to its end in time") from None
    return size


async def json_of(request: Request) -> Json:
    """The object that a request holds; raises InputError."""
    parts: list[bytes] = []
    if not await body_of(request, MOST_JSON, parts.append):
        return {}
    try:
        found: Any = await run_in_threadpool(json.loads, b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise InputError(f"the request is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError("the request is no JSON object")
    return cast("Json", found)


class Api:
    """The requests that the page makes."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._policy = policy(page_file("index.html").decode(), "'self'") + "; frame-ancestors 'none'"

    def routes(self) -> list[Route]:
        """All paths."""
        model = "/api/models/{model}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/models", self.models),
            ("POST", "/api/models", self.upload),
            ("DELETE", model, self.forget),
            ("GET", f"{model}/structure", self.structure),
            ("GET", f"{model}/faults", self.faults),
            ("GET", f"{model}/nodes/{{node:int}}", self.node),
            ("GET", f"{model}/values/{{name:path}}", self.value),
            ("GET", f"{model}/tensors/{{name:path}}", self.tensor),
            ("GET", f"{model}/stats", self.stats),
            ("POST", f"{model}/types", self.types),
            ("POST", f"{model}/run", self.run),
            ("POST", f"{model}/profile", self.profile),
            ("GET", f"{model}/source", self.source),
            ("POST", f"{model}/tools/{{tool}}", self.tool),
            ("GET", f"{model}/commands", self.commands),
            ("POST", f"{model}/edit", self.edit),
            ("POST", f"{model}/undo", self.undo),
            ("POST", f"{model}/redo", self.redo),
            ("GET", f"{model}/script", self.script),
            ("POST", f"{model}/save", self.save),
            ("GET", f"{model}/download", self.download),
            ("GET", "/api/operators", self.operators),
            ("GET", "/api/diff", self.diff),
            ("GET", "/api/jobs/{job}", self.job),
            ("DELETE", "/api/jobs/{job}", self.cancel),
            ("GET", "/{file}", self.file),
            ("GET", "/", self.file),
        ]
        return [Route(path, handler, methods=[method]) for method, path, handler in table]

    def _model(self, request: Request) -> OpenModel:
        try:
            return self.session.find(request.path_params["model"])
        except InputError as error:
            raise HTTPException(404, str(error)) from None

    def _editable(self, request: Request) -> OpenModel:
        self._check_editable()
        return self._model(request)

    def _check_editable(self) -> None:
        if not self.session.editable:
            raise NotAllowedError("the page shows models only: start `intaglio view` with --edit to change them")

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        name = request.path_params.get("file", "index.html")
        if name not in page_names():
            raise HTTPException(404, "there is nothing here")
        kind = _KINDS.get(Path(name).suffix, "application/octet-stream")
        return Response(page_file(name), 200, {"content-security-policy": self._policy, "content-type": kind})

    async def models(self, request: Request) -> Response:
        """All open models, and what this machine can do."""
        del request
        rows = await run_in_threadpool(lambda: [model.describe() for model in list(self.session.models.values())])
        engine = {"available": find_compiler() is not None, "target": host_target().description,
                  "cores": usable_cores()}  # fmt: skip
        return answer({"models": rows, "version": __version__, "engine": engine, "editable": self.session.editable})

    async def upload(self, request: Request) -> Response:
        """Open a model that the page sends; it is ONNX, whatever it is named, and reads no other files."""
        self._check_editable()
        name = Path(request.headers.get("x-name", "uploaded.onnx").replace("\\", "/")).name[:200] or "uploaded.onnx"
        with NamedTemporaryFile(prefix="intaglio-") as file:
            size = await body_of(request, MOST_UPLOAD, file.write)
            file.seek(0)
            data = await run_in_threadpool(file.read)
        if not size:
            raise InputError("the file is empty")
        opened = await run_in_threadpool(_uploaded, data, name)
        model = await run_in_threadpool(self.session.add, opened, "other")
        return answer({"id": model.id}, 201)

    async def forget(self, request: Request) -> Response:
        """Close a model that a tool made or the page sent."""
        self.session.forget(self._model(request).id)
        return answer({})

    async def structure(self, request: Request) -> Response:
        """What the page draws."""
        model = self._model(request)
        tag = f'"{model.id}-{model.revision}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        text = await run_in_threadpool(model.structure_text)
        return Response(text, 200, {"etag": tag}, media_type="application/json")

    async def faults(self, request: Request) -> Response:
        """What is wrong with the model."""
        model = self._model(request)
        return answer(await run_in_threadpool(model.faults))

    async def node(self, request: Request) -> Response:
        """The panel of a node."""
        model, number = self._model(request), request.path_params["node"]
        return answer(await run_in_threadpool(lambda: node_details(model.document, number, model.types())))

    async def value(self, request: Request) -> Response:
        """The panel of a value."""
        model, name = self._model(request), request.path_params["name"]
        return answer(await run_in_threadpool(lambda: value_details(model.document, name, model.types())))

    async def tensor(self, request: Request) -> Response:
        """Some elements of a constant, or of a tensor of a run, with statistics."""
        model, name = self._model(request), request.path_params["name"]
        start, count = (_number(request, key, default) for key, default in (("start", 0), ("count", 1000)))
        run = request.query_params.get("run")

        def look() -> Json:
            if run is None:
                return tensor_facts(name, tensor_array(model.document, name), start, count)
            kept = self.session.jobs.find(run).kept
            if name not in kept:
                raise InputError(f"run {run[:40]!r} has not kept the tensor {name[:200]!r}; name it in `tensors`")
            return tensor_facts(name, kept[name], start, count)

        return answer(await run_in_threadpool(look))

    async def stats(self, request: Request) -> Response:
        """What nodes cost."""
        model = self._model(request)
        dims: dict[str, Any] = {}
        for text in request.query_params.getlist("dim"):
            name, _, number = text.rpartition("=")
            if not name or not number.isdecimal() or len(number) > 12:
                raise InputError(f"dim is {text[:80]!r}, expected NAME=NUMBER")
            dims[name] = int(number)
        return answer(await run_in_threadpool(cost_rows, model.document, numbers_by_name(dims)))

    async def types(self, request: Request) -> Response:
        """Types of values for sizes that are typed in."""
        model, given = self._model(request), await json_of(request)
        dims = numbers_by_name(given.get("dims"))
        return answer({"types": await run_in_threadpool(type_texts, model, dims)})

    async def run(self, request: Request) -> Response:
        """Begin a run."""
        model, given = self._model(request), await json_of(request)
        return self._started(run_work(model, given))

    async def profile(self, request: Request) -> Response:
        """Begin a profile."""
        model, given = self._model(request), await json_of(request)
        return self._started(profile_work(model, given))

    async def source(self, request: Request) -> Response:
        """Begin an export of source."""
        return self._started(source_work(self._model(request), request.query_params.get("to", "python")))

    async def tool(self, request: Request) -> Response:
        """Begin the work of a tool."""
        model, given = self._model(request), await json_of(request)
        options = given.get("options", given)
        if not isinstance(options, dict):
            raise InputError("options is an object of values by name")
        return self._started(tool_work(self.session, model, request.path_params["tool"], cast("Json", options)))

    def _started(self, work: Callable[[Job], Json]) -> Response:
        job = self.session.jobs.start(work)
        return answer({"job": job.id, **job.to_json()}, 202)

    async def commands(self, request: Request) -> Response:
        """The commands of the editor."""
        self._model(request)
        return answer(described_commands())

    async def operators(self, request: Request) -> Response:
        """The operators that can be added, or the schema of one."""
        return answer(await run_in_threadpool(_operators, request.query_params))

    async def edit(self, request: Request) -> Response:
        """Give commands as one step."""
        model, given = self._editable(request), await json_of(request)
        commands: Any = given.get("commands")
        if not isinstance(commands, list):
            raise InputError("commands is a list")
        return await self._step(model, given, lambda: model.edit(cast("list[Any]", commands), self.session))

    async def undo(self, request: Request) -> Response:
        """Take a step back."""
        model, given = self._editable(request), await json_of(request)
        return await self._step(model, given, model.undo)

    async def redo(self, request: Request) -> Response:
        """Make a step again."""
        model, given = self._editable(request), await json_of(request)
        return await self._step(model, given, model.redo)

    async def _step(self, model: OpenModel, given: Json, step: Callable[[], list[int] | None]) -> Response:
        def make() -> Response:
            with model.lock:
                wanted = given.get("revision", model.revision)
                if wanted != model.revision:
                    raise ConflictError(
                        f"the model is at revision {model.revision}, not {str(wanted)[:40]}: load it anew"
                    )
                return answer(model.state(step() or ()))

        return await run_in_threadpool(make)

    async def script(self, request: Request) -> Response:
        """The edits as a Python script, with long arrays beside it."""
        model = self._model(request)
        return answer(await run_in_threadpool(model.script))

    async def save(self, request: Request) -> Response:
        """Write the model beside its file."""
        model, given = self._editable(request), await json_of(request)
        name = given.get("path")
        if name is not None and not isinstance(name, str):
            raise InputError("path is a file name")

        def write() -> Json:
            with model.lock:
                written = model.save(name, given.get("overwrite") is True)
                return {"path": str(written[0]), "files": [path.name for path in written]}

        return answer(await run_in_threadpool(write))

    async def download(self, request: Request) -> Response:
        """The bytes of the model as it is now."""
        model = self._model(request)

        def join() -> bytes:
            with model.lock:
                return b"".join(bytes(piece) for piece in document_pieces(model.document))

        data = await run_in_threadpool(join)
        kind = {"content-disposition": 'attachment; filename="model.onnx"'}
        return Response(data, 200, kind, media_type="application/octet-stream")

    async def diff(self, request: Request) -> Response:
        """How two models differ: the first two, or those named as `a` and `b`."""
        names = list(self.session.models)
        if len(names) < 2:
            raise InputError("only one model is open: `intaglio view OLD NEW` opens two")
        chosen = [request.query_params.get(key, names[place]) for place, key in enumerate("ab")]
        old, new = (self.session.find(each) for each in chosen)
        return answer(await run_in_threadpool(lambda: difference_json(old.document.copy(), new.document.copy())))

    def _job(self, request: Request) -> Job:
        try:
            return self.session.jobs.find(request.path_params["job"])
        except InputError as error:
            raise HTTPException(404, str(error)) from None

    async def job(self, request: Request) -> Response:
        """How far a job is."""
        return answer(await run_in_threadpool(self._job(request).to_json))

    async def cancel(self, request: Request) -> Response:
        """End a job."""
        job = self._job(request)
        job.cancel()
        return answer(job.to_json())


def _uploaded(data: bytes, name: str) -> Opened:
    from intaglio.runtime.artifact.reading import is_compiled

    if is_compiled(data):
        raise InputError("compiled models are code and cannot be sent; open the file with `intaglio view FILE`")
    opened = open_model(data)
    opened.name, opened.size = name, len(data)
    return opened


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 15:
        raise InputError(f"{name} is {text[:40]!r}, expected a whole number")
    return int(text)


def _operators(query: Mapping[str, str]) -> Any:
    from dataclasses import asdict

    from intaglio.onnx.schema import known_names
    from intaglio.onnx.schema_objects import schema

    domain = query.get("domain", "")
    if "name" not in query:
        return sorted(known_names(domain))
    version = query.get("version", "")
    found = schema(query["name"], domain, int(version) if version.isdecimal() and len(version) < 6 else None)
    return asdict(found)
