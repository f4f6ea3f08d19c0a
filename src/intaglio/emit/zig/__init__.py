"""Models as Zig: the graph as one anonymous struct, and a library that walks it while it is compiled."""
