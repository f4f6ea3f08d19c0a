"""What kernels are printed, compiled and run for: one folder a target."""
