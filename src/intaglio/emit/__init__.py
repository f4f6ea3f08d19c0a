"""Models as source that people read, change and own: one folder a language, one graph behind all of them."""

from intaglio.emit.export import LANGUAGES, Exported, export

__all__ = ["LANGUAGES", "Exported", "export"]
