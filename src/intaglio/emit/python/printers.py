"""All printers of NumPy code; importing them fills their table."""

from intaglio.emit.python import arithmetic, layers, movement, sequences
from intaglio.emit.python.words import LIBRARY, PRINTERS, RESERVED, language

__all__ = ["LIBRARY", "PRINTERS", "RESERVED", "arithmetic", "language", "layers", "movement", "sequences"]
