"""From C source to running code: targets, the compiler, the cache, the C runtime and the way into it from Python."""
