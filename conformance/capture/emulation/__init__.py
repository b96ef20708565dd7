"""Emulation: generated wrappers and Triton kernels run on the cpu, where their gpu is not there.

The wrapper is loaded as it is and called; its memory is the host's (a pretended device), its kernels are interpreted,
and operators that Inductor does not generate run on the cpu. Triton's own interpreter does the semantics; what it gets
wrong or does slowly is replaced: arithmetic.py, memory.py, reductions.py, libdevice.py.
"""
