"""Compiles Triton kernels to binaries without the device."""
