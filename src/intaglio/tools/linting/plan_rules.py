"""Rules about how Intaglio runs the model: of the plan that is made for it; nothing is compiled."""

from __future__ import annotations

from intaglio.tools.linting.rules import Found, rule
from intaglio.tools.linting.subject import Subject


@rule("host-nodes", "warning", "see the reason at each")
def host_nodes(subject: Subject) -> Found:
    """Nodes that are not compiled: the slow reference runs them."""
    if subject.engine is not None:
        for host in subject.engine.form.hosts:
            yield host.node.path or host.node.operator, str(host.refusal)


@rule("compile-per-size", "warning", "give shapes of known length, or fix the input")
def compile_per_size(subject: Subject) -> Found:
    """Ranks follow from sizes or from values of inputs: each new one is compiled when it is first met."""
    engine = subject.engine
    if engine is None:
        return
    if engine.depends_on_shapes:
        yield "", "the ranks of some tensors follow from sizes"
    for place in engine.parameters:
        yield engine.graph.inputs[place].name, "its values decide what is compiled"


@rule("sizes-assumed", "info", "use one name for both")
def sizes_assumed(subject: Subject) -> Found:
    """Sizes that are taken to be equal; others get code of their own."""
    if subject.engine is not None:
        for left, right in dict.fromkeys(subject.engine.form.assumptions):
            yield "", f"{left} = {right}"
