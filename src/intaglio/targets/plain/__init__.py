"""Plain C11: loops and library functions, as a person would write them. It is for reading and for export."""
