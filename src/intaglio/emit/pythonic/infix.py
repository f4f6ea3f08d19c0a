"""Operators that are signs of Python, in every library of arrays."""

INFIX = {
    "Reciprocal": "1 / {}",
    "Not": "~{}",
    "BitwiseNot": "~{}",
    "Add": "{} + {}",
    "Sub": "{} - {}",
    "Mul": "{} * {}",
    "Equal": "{} == {}",
    "Less": "{} < {}",
    "LessOrEqual": "{} <= {}",
    "Greater": "{} > {}",
    "GreaterOrEqual": "{} >= {}",
    "And": "{} & {}",
    "Or": "{} | {}",
    "Xor": "{} ^ {}",
    "BitwiseAnd": "{} & {}",
    "BitwiseOr": "{} | {}",
    "BitwiseXor": "{} ^ {}",
}
"""The text of each, with a place for each operand."""
