"""Rules about the file: versions, names, inputs, what nobody uses, where weights are."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import PurePosixPath, PureWindowsPath

from onnx import TensorProto, helper

from intaglio.errors import ExternalDataError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.schema import known_names
from intaglio.tools.document.writing import external_locations
from intaglio.tools.linting.rules import Found, rule
from intaglio.tools.linting.subject import Subject, title

OLDEST = 7
"""Other runtimes promise to run operator sets from this one on."""
RUNTIMES = {"ONNX Runtime 1.14": 18, "ONNX Runtime 1.16": 19, "ONNX Runtime 1.17": 20, "ONNX Runtime 1.20": 21}
"""The newest operator set that releases which are still in use know."""
INLINE_LIMIT = 2**31 - 1
"""A protobuf message cannot be larger."""
ONNX_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")


@rule("invalid", "error", "repair what is named; `intaglio check` lists the same")
def invalid(subject: Subject) -> Found:
    """The model breaks ONNX's rules."""
    for problem in subject.problems:
        yield problem.where, str(problem.error)


@rule("opset-old", "warning", "convert: set-opset")
def opset_old(subject: Subject) -> Found:
    """The operator set is older than other runtimes promise to run."""
    version = subject.document.opset()
    if version is not None and version < OLDEST:
        yield "", f"ai.onnx {version}, and ONNX Runtime begins at {OLDEST}"


@rule("opset-new", "warning", "convert: set-opset")
def opset_new(subject: Subject) -> Found:
    """The operator set is newer than releases that are still in use."""
    version = subject.document.opset()
    late = [name for name, newest in RUNTIMES.items() if version is not None and version > newest]
    if len(late) == len(RUNTIMES):
        yield "", f"ai.onnx {version} is not known to {late[-1]} and older ones"


@rule("ir-version", "warning", "lower ir_version to the one that is named")
def ir_version(subject: Subject) -> Found:
    """The IR version is newer than the operator sets need, and runtimes refuse it that could run the model."""
    try:
        needed = helper.find_min_ir_version_for(subject.document.shell.opset_import, ignore_unknown=True)
    except ValueError:
        return
    found = subject.document.shell.ir_version
    if found > max(needed, 8):
        yield "", f"IR version {found}, and its operator sets came with {needed}"


@rule("opset-unused", "info", "remove the import")
def opset_unused(subject: Subject) -> Found:
    """An operator set is imported that no node uses."""
    used = {_domain(node.shell.domain) for node in subject.nodes}
    for entry in subject.document.shell.opset_import:
        if _domain(entry.domain) not in used and (_domain(entry.domain) or subject.nodes):
            yield "", f"{entry.domain or 'ai.onnx'} {entry.version}"


@rule("opset-missing", "error", "add it to opset_import")
def opset_missing(subject: Subject) -> Found:
    """Nodes use an operator set that is not imported."""
    known = {_domain(entry.domain) for entry in subject.document.shell.opset_import}
    known |= {_domain(function.domain) for each in subject.document.functions for function in each.shell.opset_import}
    for domain in sorted({_domain(node.shell.domain) for node in subject.nodes} - known):
        yield "", domain or "ai.onnx"


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


@rule("domain-contrib", "warning", "export again without optimising for one runtime, or stay with those that have them")
def domain_contrib(subject: Subject) -> Found:
    """Operators that ONNX does not define; few runtimes have them."""
    yield from _foreign(subject, is_known=True)


@rule("domain-unknown", "error", "register an implementation, or put functions for them into the file")
def domain_unknown(subject: Subject) -> Found:
    """Operators that neither ONNX, the file's functions nor Intaglio define."""
    yield from _foreign(subject, is_known=False)


def _foreign(subject: Subject, is_known: bool) -> Found:
    functions = {each.key[:2] for each in subject.document.functions}
    found: Counter[tuple[str, str]] = Counter()
    for node in subject.nodes:
        key = (_domain(node.shell.domain), node.shell.op_type)
        if key[0] not in ONNX_DOMAINS and key not in functions and (key[1] in known_names(key[0])) == is_known:
            found[key] += 1
    for (domain, name), count in found.items():
        yield "", f"{domain}.{name}, {count} times"


@rule("names-odd", "warning", "rename; other tools cut them")
def names_odd(subject: Subject) -> Found:
    """Names with control characters, quotes or spaces."""
    names = [node.name for node in subject.nodes]
    names += [name for node in subject.nodes for name in node.shell.output]
    names += [each.name for each in (*subject.document.graph.inputs, *subject.document.graph.initializers)]
    for name in dict.fromkeys(names):
        if any(not char.isprintable() or char in " \"'\\" for char in name):
            yield repr(name), "odd characters"


@rule("names-duplicate", "warning", "rename; some runtimes refuse them")
def names_duplicate(subject: Subject) -> Found:
    """Nodes of one graph share a name."""
    for graph in subject.document.graph.all_graphs():
        counts = Counter(node.name for node in graph.nodes if node.name)
        yield from ((name, f"the name of {count} nodes") for name, count in counts.items() if count > 1)


@rule("names-missing", "info", "give names")
def names_missing(subject: Subject) -> Found:
    """Nodes without a name: profiles and messages cannot name them."""
    count = sum(not node.name for node in subject.nodes)
    if count:
        yield "", f"{count} of {len(subject.nodes)} nodes"


@rule("input-unused", "warning", "remove it")
def input_unused(subject: Subject) -> Found:
    """An input that nothing reads; some runtimes drop it, and callers fail."""
    yield from (
        (info.name, "is read by no node") for info in subject.document.graph.inputs if info.name not in subject.read
    )


@rule("initializer-input", "warning", "take them off the inputs")
def initializer_input(subject: Subject) -> Found:
    """Weights that are also inputs: callers can change them, so they cannot be folded or packed."""
    weights = {tensor.name for tensor in subject.document.graph.initializers}
    found = [info.name for info in subject.document.graph.inputs if info.name in weights]
    if found:
        yield found[0], f"{len(found)} of {len(weights)} weights are inputs"


@rule("initializer-unused", "warning", "remove them")
def initializer_unused(subject: Subject) -> Found:
    """Weights that nothing reads: the file is larger than it must be."""
    for tensor in subject.document.graph.initializers:
        if tensor.name not in subject.read:
            yield tensor.name, "is read by no node"


@rule("node-unused", "warning", "remove them: `prune`")
def node_unused(subject: Subject) -> Found:
    """Nodes whose results nothing reads."""
    for node in subject.document.graph.nodes:
        if node.outputs and not subject.read.intersection(node.outputs):
            yield title(node), "is computed for nothing"


@rule("shape-missing", "warning", "declare it: set-shape")
def shape_missing(subject: Subject) -> Found:
    """An input or output without a type or a rank."""
    for info in (*subject.document.graph.inputs, *subject.document.graph.outputs):
        kind = info.type.WhichOneof("value")
        if kind is None or (kind == "tensor_type" and not info.type.tensor_type.HasField("shape")):
            yield info.name, "has no shape" if kind else "has no type"


@rule("dimension-unnamed", "info", "name them: set-shape")
def dimension_unnamed(subject: Subject) -> Found:
    """Dimensions of inputs that are neither a number nor a name."""
    for info in subject.document.graph.inputs:
        dims = info.type.tensor_type.shape.dim
        axes = [axis for axis, dim in enumerate(dims) if not dim.HasField("dim_value") and not dim.dim_param]
        if axes:
            yield info.name, f"axes {axes}"


@rule("weights-inline", "error", "put them into another file: `externalize`")
def weights_inline(subject: Subject) -> Found:
    """More weights in the file itself than a protobuf message can hold: most tools cannot read it."""
    held = sum(len(data) for data in subject.document.held.values())
    held += sum(len(tensor.raw_data) for tensor in subject.document.tensors())
    if held > INLINE_LIMIT:
        yield "", f"{held} bytes"


@rule("external-path", "error", "move it there")
def external_path(subject: Subject) -> Found:
    """External data outside of the model's folder: unsafe, and refused."""
    for location in external_locations(subject.document):
        posix, windows = PurePosixPath(location), PureWindowsPath(location)
        if posix.is_absolute() or windows.is_absolute() or ".." in (*posix.parts, *windows.parts):
            yield "", repr(location)


@rule("external-missing", "error", "bring it to the model's folder")
def external_missing(subject: Subject) -> Found:
    """A file of external data is not there."""
    for location in external_locations(subject.document):
        try:
            ExternalData(subject.document.folder).whole(location)
        except ExternalDataError as error:
            if subject.document.folder is None or not os.path.lexists(subject.document.folder / location):
                yield "", str(error)


@rule("constant-large", "warning", "make them initializers: `simplify`")
def constant_large(subject: Subject) -> Found:
    """Large constants in nodes: they can be neither mapped nor stored in another file."""
    for node in subject.nodes:
        sizes = [_size(each.shell.t) for each in node.attributes if each.shell.HasField("t")]
        if sum(sizes) >= 1 << 16:
            yield title(node), f"{sum(sizes)} bytes"


def _size(tensor: TensorProto) -> int:
    return len(tensor.raw_data) or tensor.ByteSize()
