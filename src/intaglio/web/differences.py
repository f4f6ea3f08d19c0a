"""How two open models differ, node by node."""

from __future__ import annotations

from typing import Any

from intaglio.tools.diffing.difference import diff
from intaglio.tools.diffing.matching import match
from intaglio.tools.document import Document

Json = dict[str, Any]


def difference_json(old: Document, new: Document) -> Json:
    """The nodes of the main graphs that only one has, those that differ, and all pairs; and what else differs."""
    found = diff(old, new)
    matching = match(old.graph, new.graph)
    by_title = {each.where: each for each in found.changed if each.what == "node"}
    pairs, changed = list[list[int]](), list[Json]()
    for node in old.graph.nodes:
        partner = matching.pairs.get(node.number)
        if partner is None:
            continue
        pairs.append([node.number, partner.number])
        known = by_title.get(_title(node))
        if known is not None:
            what = [f"{name}: {before or '(none)'} -> {after or '(none)'}" for name, before, after in known.changes]
            changed.append({"a": node.number, "b": partner.number, "what": what})
    nodes: Json = {
        "added": [node.number for node in new.graph.nodes if node.number not in matching.back],
        "removed": [node.number for node in old.graph.nodes if node.number not in matching.pairs],
        "changed": changed,
        "pairs": pairs,
        "became": _became(old, new, matching.pairs, matching.back),
    }
    data = found.to_json()
    return {
        "nodes": nodes,
        "weights": data["weights"],
        "interface": [each for each in data["changed"] if each["what"] in ("input", "output")],
        "model": data["model"],
        "other": [each for each in data["changed"] if each["what"] not in ("node", "input", "output")],
        "added": data["added"],
        "removed": data["removed"],
        "equal": data["equal"],
        "same_nodes": data["same_nodes"],
        "same_weights": data["same_weights"],
        "unread": data["unread"],
    }


def _title(node: Any) -> str:
    from intaglio.tools.diffing.difference import LONGEST_TEXT, describe

    text = describe(node)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _became(old: Document, new: Document, pairs: Any, back: Any) -> list[list[int]]:
    """Which nodes of the new graph stand for nodes that are gone: those that make a value of the same name.

    A removed node whose results are gone too became what makes the nearest later value that both graphs have.
    """
    makers = {name: node.number for node in new.graph.nodes for name in node.shell.output if name}
    readers: dict[str, list[Any]] = {}
    for node in old.graph.nodes:
        for name in node.shell.input:
            readers.setdefault(name, []).append(node)
    found: dict[int, int] = {}
    for node in reversed(old.graph.nodes):
        partner = pairs.get(node.number)
        if partner is not None:
            found[node.number] = partner.number
            continue
        for name in node.shell.output:
            if name in makers:
                found[node.number] = makers[name]
                break
            after = [found[each.number] for each in readers.get(name, ()) if each.number in found]
            if after:
                found[node.number] = after[0]
                break
    del back
    return [[a, b] for a, b in found.items() if a not in pairs]
