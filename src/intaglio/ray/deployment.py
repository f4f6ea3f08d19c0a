"""`deployment`: a model behind Ray Serve, by the Open Inference Protocol and by handles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from intaglio.errors import InputError
from intaglio.ray import require_extra
from intaglio.ray.sending import opened, threads_of
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.serve.messages import InferRequest
from intaglio.serve.settings import Settings


def deployment(
    model: Model | str | os.PathLike[str],
    *,
    name: str = "model",
    replicas: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    target_requests: float = 2,
    settings: Settings | None = None,
    serve_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """An application for `ray.serve.run`, which answers for one model.

    By HTTP it speaks the Open Inference Protocol at the application's route, as `intaglio serve` does, under `name`. A
    handle has `handle.predict.remote({"x": array})`, which gives arrays by the names of outputs.

    `model` is a `Model`, which travels with the application, or a path or an address (`s3://bucket/m.onnx`) that each
    machine can read, with `options` of `load`. `replicas` are so many processes, or between so many: then Ray starts
    another one where each has more than `target_requests` under way. Each is granted `num_cpus` and computes on as many
    threads; those of one machine hold the weights once. Requests that wait are run together where the graph proves that
    rows do not mix; `settings` has the limits of that and of requests. `serve_options` go to `ray.serve.deployment`;
    an `autoscaling_config` there adds to that of `replicas`.
    """
    serve = require_extra("ray.serve")
    least, most = (replicas, replicas) if isinstance(replicas, int) else replicas
    if not 1 <= least <= most:
        raise InputError(f"replicas is {replicas}, expected a number from 1 on, or two in order")
    if "threads" in options:
        raise InputError("threads: a replica has as many threads as `num_cpus` says")
    chosen = replace(settings or Settings(), threads=threads_of(num_cpus), allow_control=False)
    wanted: dict[str, Any] = {
        "name": name,
        "ray_actor_options": {"num_cpus": num_cpus},
        "max_ongoing_requests": chosen.max_queue,
    }
    given = dict(serve_options or {})
    if least == most:
        wanted["num_replicas"] = least
    else:
        scaling = {"min_replicas": least, "max_replicas": most, "target_ongoing_requests": target_requests}
        wanted["autoscaling_config"] = scaling | given.pop("autoscaling_config", {})
    made = serve.deployment(**wanted | given)(Replica)
    source = model if isinstance(model, Model) else os.fspath(model)
    return made.bind(source, name, asdict(chosen), options)


class Replica:
    """The model in the process of a replica."""

    def __init__(self, source: Model | str, name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
        from intaglio import serve as server

        chosen = Settings(**settings)
        kept: dict[str, Any] = {
            "threads": chosen.threads,
            "exact": chosen.exact,
            "limits": chosen.limits,
            "shared_weights": True,
        }
        if isinstance(source, Model):
            options = source.options.keywords() | options
            model = load(source.graph, **options | kept)
        else:
            model = load(opened(source), **kept | options)
        self._name = name
        self._app = server.asgi({name: model}, chosen)

    async def __call__(self, request: Any) -> Any:
        """Answer a request by HTTP."""
        from starlette.responses import Response

        app = self._app

        class Answer(Response):
            """What the application answers, in the place of Ray's own form of answers."""

            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                await app(scope, receive, send)

        del request
        return Answer()

    async def predict(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for inputs by name; raises what the model raises."""
        answer = await self._app.service.infer(self._name, "", InferRequest(dict(feeds)))
        return {asked.name: array for asked, _, array in answer.outputs}
