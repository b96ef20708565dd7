"""Emulation: runs generated wrappers and Triton kernels on the CPU where their GPU is missing.

The emulation loads the wrapper unchanged and calls it. Its tensors live in host memory (a pretended device). An
interpreter runs its kernels. Operators that Inductor does not generate run on the CPU. Triton's own interpreter gives
the semantics; arithmetic.py, memory.py, reductions.py and libdevice.py replace what it does wrong or slowly.
"""
