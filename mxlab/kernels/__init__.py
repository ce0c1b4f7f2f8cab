"""Triton kernels. Where there is no GPU they run in Triton's interpreter, on CPU tensors."""
