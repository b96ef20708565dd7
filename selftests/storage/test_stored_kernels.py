"""Which cases store the same kernel, or the same but for sizes."""

from __future__ import annotations

from conformance.storage.snapshots import Store
from conformance.storage.stored_kernels import SimilarKernels, StoredKernels, kernel_digest

STORED = """\
== torch 2.13: cuda_sm90
kernels       2

== torch 2.13: cuda_sm90
--- inference
# kernel triton_poi_fused_add_0
# Original ATen: [aten.add]
@triton.jit
def triton_poi_fused_add_0(in_ptr0, xnumel):
    xnumel = SIZE
    tmp0 = tl.load(in_ptr0 + SIZE) + 1.5

# kernel triton_poi_fused_mul_0
@triton.jit
def triton_poi_fused_mul_0(in_ptr0):
    tmp0 = tl.load(in_ptr0)

def call(args):
    triton_poi_fused_add_0.run()
"""
ADD = """\
# kernel kernel
@triton.jit
def kernel(in_ptr0, xnumel):
    xnumel = 36
    tmp0 = tl.load(in_ptr0 + 36) + 1.5
"""
MUL = "# kernel kernel\n# options: device_str\n@triton.jit\ndef kernel(in_ptr0):\n    tmp0 = tl.load(in_ptr0)\n"


def stored(folder, **sizes):
    (folder / "add").mkdir()
    for name, size in sizes.items():
        (folder / "add" / f"{name}.txt").write_text(STORED.replace("SIZE", size))
    return StoredKernels([Store(folder)], "2.13.0+cpu", "cuda_sm90")


def test_same_and_same_but_for_sizes(tmp_path):
    found = stored(tmp_path, small="36", large="9000").similar(ADD)
    assert found == SimilarKernels(same=["add/small"], but_for_sizes=["add/large"])


def test_another_constant_is_another_kernel(tmp_path):
    kernels = stored(tmp_path, small="36")
    assert kernels.similar(ADD.replace("1.5", "2.5")) == SimilarKernels()
    assert kernels.similar(ADD.replace("tmp0", "tmp1")) == SimilarKernels()


def test_a_kernel_ends_before_the_next_one_and_before_the_calls(tmp_path):
    assert stored(tmp_path, small="36", large="9000").similar(MUL).same == ["add/large", "add/small"]


def test_other_torch_and_other_target_have_none(tmp_path):
    stored(tmp_path, small="36")
    for torch, target in (("2.15.0", "cuda_sm90"), ("2.13.0", "cuda_sm80")):
        assert StoredKernels([Store(tmp_path)], torch, target).similar(ADD) == SimilarKernels()


def test_digest_depends_on_the_text_alone():
    digest = kernel_digest(ADD)
    assert digest.startswith("0x")
    assert len(digest) == 18
    assert kernel_digest(ADD.replace("# kernel kernel\n", "# kernel kernel\n# Original ATen: [aten.add]\n")) == digest
    assert kernel_digest(ADD.replace("36", "37")) != digest
