"""What a server says about its models, in the words of the protocol's extensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intaglio.serve.lane import Lane
from intaglio.serve.messages import RequestError
from intaglio.serve.repository import Entry
from intaglio.serve.service import Service
from intaglio.serve.shared_memory import SharedMemory
from intaglio.serve.statistics import Statistics

_TYPES = {"BYTES": "STRING"}


def model_metadata(service: Service, name: str, version: str = "") -> dict[str, Any]:
    """Inputs, outputs and versions of a model."""
    lane = service.repository.find(name, version).lane
    if lane is None:
        raise RequestError("the model is not loaded")
    return lane.served.metadata(service.repository.versions(name))


async def model_stats(service: Service, name: str = "", version: str = "") -> list[dict[str, Any]]:
    """The statistics of a model, or of all."""
    entries = [service.repository.find(name, version)] if name else service.repository.entries()
    others = (await service.others()).get("models", {})
    return [
        {"name": entry.name, "version": entry.version, **statistics_of(entry, entry.lane, others).fields()}
        for entry in entries
        if entry.lane is not None
    ]


def statistics_of(entry: Entry, lane: Lane, others: Mapping[str, Any]) -> Statistics:
    """The statistics of a model in this process and all others."""
    found = others.get(f"{entry.name}/{entry.version}")
    return lane.statistics if found is None else lane.statistics.with_numbers(found)


def model_config(service: Service, name: str, version: str = "") -> dict[str, Any]:
    """How a model is run, in the words of the model configuration extension."""
    metadata = model_metadata(service, name, version)
    sides = {
        side: [
            {"name": item["name"], "data_type": f"TYPE_{_TYPES.get(item['datatype'], item['datatype'])}",
             "dims": item["shape"]}
            for item in metadata[side + "s"]
        ]
        for side in ("input", "output")
    }  # fmt: skip
    return {"name": name, "platform": metadata["platform"], "max_batch_size": 0, **sides}


def is_model_ready(service: Service, name: str, version: str = "") -> bool:
    """Whether requests for a model should be sent here; raises RequestError where there is no such model."""
    return service.repository.named(name, version).is_ready and not service.repository.is_draining


def regions_of(service: Service) -> SharedMemory:
    """The registered shared memory; raises RequestError where the server takes none."""
    if service.regions is None:
        raise RequestError("this server takes no shared memory; start it with --shared-memory")
    return service.regions


def check_control(service: Service, parameters: Any) -> None:
    """Raise RequestError where clients may not load and unload models, or ask for what a load does not take."""
    if not service.settings.allow_control:
        raise RequestError("this server does not let clients load and unload models", 403)
    if parameters:
        raise RequestError("a load takes no parameters here: models come from the server's own folder alone")
