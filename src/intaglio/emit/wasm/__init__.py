"""Models for WebAssembly: a module, a loader in JavaScript, a page."""
