"""The lowering of structured operators to kernels of a device.

What is not written here has a rule of C, whose kernels the device runs one task a thread, or one of plain C.
"""

from intaglio.kernels.target_rules import Anchor
from intaglio.targets.c.rules import ANCHORS as RULES_OF_C
from intaglio.targets.cuda.rules import attention as attention
from intaglio.targets.cuda.rules import channels_last as channels_last
from intaglio.targets.cuda.rules import extremes as extremes
from intaglio.targets.cuda.rules import gather as gather
from intaglio.targets.cuda.rules import products as products
from intaglio.targets.cuda.rules import windows as windows
from intaglio.targets.cuda.rules.table import OWN, first_of
from intaglio.targets.plain.target_rules import PlainRules

_SHARED = {name: rule for name, rule in RULES_OF_C.items() if not rule.needs}
_OTHERS: dict[str, Anchor] = dict(PlainRules().anchors) | _SHARED

ANCHORS: dict[str, Anchor] = _OTHERS | {
    name: first_of(rule, _OTHERS[name]) if name in _OTHERS else rule for name, rule in OWN.items()
}

__all__ = ["ANCHORS"]
