"""Decoding steps as CUDA kernels in Triton; see `loopmt.model.kernels`."""
