"""What exporters to Python share, whatever arrays their code computes with: statements, names, sizes, control flow."""
