"""What is read from the assembly of AMD's kernels."""

from __future__ import annotations

import pytest

from conformance.capture.offline import amdgcn
from conformance.capture.offline.cubin import ToolError

ASSEMBLY = """
    buffer_load_ushort v1, v2, s[0:3], 0 offen
    global_load_dwordx2 v[4:5], v[0:1], off
    ds_read_b128 v[6:9], v3
    v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], 0
    v_smfmac_f32_16x16x64_bf16 v[0:3], v[4:5], v[6:9], v10
    global_store_short_d16_hi v[0:1], v2, off
    s_endpgm
    .private_segment_fixed_size: 24
    .sgpr_count:     20
    .vgpr_count:     97
"""


def test_resources():
    assert amdgcn.resource_usage(ASSEMBLY, "k") == amdgcn.Usage(registers=97, local=24)
    with pytest.raises(ToolError, match=r"the assembly of k has no metadata \.vgpr_count"):
        amdgcn.resource_usage(ASSEMBLY.replace(".vgpr_count", ".agpr_count"), "k")


@pytest.mark.parametrize(
    ("instruction", "bits"),
    [
        ("", 64),
        ("buffer_store_dwordx4 v[0:3], v4, s[0:3], 0 offen", 128),
        ("global_load_dwordx3 v[0:2], v[4:5], off", 96),
        ("ds_write_b128 v0, v[4:7]", 64),
    ],
)
def test_the_widest_access(instruction, bits):
    assert amdgcn.widest_access(f"{ASSEMBLY}\n  {instruction}\n") == bits


@pytest.mark.parametrize(
    ("instruction", "bits"),
    [
        ("buffer_load_sbyte_d16 v0", 8),
        ("global_store_byte v0", 8),
        ("global_load_sshort v0", 16),
        ("s_load_dwordx8", 0),
    ],
)
def test_narrow_accesses(instruction, bits):
    assert amdgcn.widest_access(f"  {instruction}, v1, off\n") == bits


def test_instructions_of_the_matrix_cores():
    assert amdgcn.matrix_instructions(ASSEMBLY) == 2
