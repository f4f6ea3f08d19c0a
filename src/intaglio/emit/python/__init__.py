"""Models as plain NumPy code."""
