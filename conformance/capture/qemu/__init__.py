"""Emulation of processors: C++ kernels for another architecture, cross-compiled and run by qemu-user."""
