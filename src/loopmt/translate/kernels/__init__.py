"""Steps of decoding as single CUDA kernels, written in Triton; see `loopmt.model.kernels`."""
