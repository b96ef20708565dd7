"""Triton kernels compiled to binaries without the device."""
