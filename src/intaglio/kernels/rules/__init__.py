"""The lowering of structured operators, by family; importing this package registers them all."""
