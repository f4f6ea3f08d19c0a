"""Models as C: a folder with a header, source, weights, a program that tests itself, and what builds it."""
