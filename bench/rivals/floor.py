"""The least that uvicorn can do: read a body, and answer with bytes that are there already, or with the same bytes."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn

BODY = (
    b'{"model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1,4],"data":[2,2,2,2]}]}'
)


async def app(scope: Any, receive: Any, send: Any) -> None:
    parts, is_more = list[bytes](), True
    while is_more:
        message = await receive()
        parts.append(message["body"])
        is_more = message.get("more_body", False)
    body = BODY if scope["path"] == "/fixed" else b"".join(parts)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    options: Any = {"http": "httptools", "loop": "uvloop", "lifespan": "off", "log_level": "error", "access_log": False}
    uvicorn.run(app, port=int(sys.argv[2]), **options)
