"""Operations of the network as single CUDA kernels, written in Triton, with their gradients.

Each takes the place of several eager operations that only move memory. All can be captured in a graph: shapes are
fixed by the caller, nothing is tuned or read back at run time. Sums are in float32 and in a fixed order, so results
repeat bit for bit. Triton is imported here alone: `model.accelerated` is the only module that looks in.
"""
