"""Fused operations of the network as CUDA kernels in Triton, with their gradients.

Each replaces several memory-bound eager operations. All can be captured in CUDA graphs: shapes are fixed by the caller,
and nothing is tuned or read back at run time. Sums are float32 in a fixed order, so results are bit-reproducible.
Only this package and `translate.kernels` import Triton.
"""
