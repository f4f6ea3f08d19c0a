"""Changes to ONNX files: each can be undone, and all together print as a script."""

from intaglio.tools.editing.editor import Editor, edit

__all__ = ["Editor", "edit"]
