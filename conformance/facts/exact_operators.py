"""Operators that compute each element by itself, and exactly or correctly rounded."""

#: Operators whose result is exact or correctly rounded in eager and in each backend of Inductor.
_NAMES = """
_conj _to_copy _unsafe_index _unsafe_view abs add alias all amax amin any arange as_strided
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bool cat ceil clamp
clamp_max clamp_min clone constant_pad_nd copy copy_ detach diagonal empty eq expand fill flip floor full
full_like gather ge gt hardtanh index index_select iota isfinite isinf isnan le lift lift_fresh_copy
logical_and logical_not logical_or logical_xor lt masked_fill max_pool2d maximum minimum mul ne neg
nonzero ones permute relu repeat reshape rev roll round scalar_tensor select select_backward select_scatter
sgn sign signbit slice slice_backward slice_scatter split squeeze stack sub t threshold_backward transpose
tril triu trunc unbind unfold unsqueeze view view_as_complex view_as_real where zeros zeros_like
"""
EXACT = frozenset(_NAMES.split())
#: These are correctly rounded in C++ only.
EXACT_ON_CPU = frozenset({"div", "reciprocal", "sqrt"})
