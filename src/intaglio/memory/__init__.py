"""Memory of the process: constants that models share, and which buffers lie in one place of an arena."""
