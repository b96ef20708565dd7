"""A small text of a snapshot, with one Triton kernel, and edits of it."""

from __future__ import annotations

HEAD = """kernels     1: add (pointwise 20)
extern      none
"""
KERNEL = """# kernel triton_poi_fused_add_0
@triton_heuristics.pointwise(
    size_hints={'x': 32},
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 20
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl.load(in_ptr1 + (x0), xmask)
    tmp2 = tmp0 - tmp1
    tmp3 = tl_math.abs(tmp2)
    tl.store(out_ptr0 + (x0), tmp3, xmask)
"""
CALL = """def call(args):
    arg0, arg1 = args
    assert_size_stride(arg0, (20, ), (1, ), 'input')
    assert_size_stride(arg1, (20, ), (1, ), 'input')
    with DeviceGuard(device):
        buf0 = empty_strided_device((20, ), (1, ), torch.float32)
        triton_poi_fused_add_0.run(arg0, arg1, buf0, 20)
    return (buf0, )
"""
TEXT = f"{HEAD}\n--- inference\n{KERNEL}\n{CALL}"


def edited(*pairs: tuple[str, str], text: str = TEXT) -> str:
    """Returns the text in which each pair (old, new) replaces the first `old`."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text
