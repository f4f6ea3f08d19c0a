"""CUDA as a target: kernels as CUDA C++, compiled by NVRTC and run on one device."""
