"""The intermediate representation: types, symbolic dimensions, graphs, and the base class of all operators."""
