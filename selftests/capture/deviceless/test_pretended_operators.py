"""Operators of a pretended GPU: sparse tensors, recurrent cells and CUDA C++ functions as on the CPU, strides as on the
device.
"""

from __future__ import annotations

import json

import pytest
from suites import run_python

SCRIPT = """
import json, warnings
from conformance.capture import isolation
from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.prepare import prepare
prepare()
import torch
from conformance.devices.targets import targets
pretended_device.register_operators(prepare().pretended_devices)
warnings.simplefilter("ignore")  # compressed layouts are a beta

#: Operations on a tensor with zeros in three layouts: sparse, compressed, dense.
USES = {
    "to_dense": lambda coo, csr, x: coo.to_dense(),
    "coalesce": lambda coo, csr, x: (coo + coo).coalesce(),
    "a product with a dense tensor": lambda coo, csr, x: coo @ x,
    "a product of two": lambda coo, csr, x: coo @ coo,
    "a sum": lambda coo, csr, x: torch.sparse.sum(coo, 0),
    "softmax": lambda coo, csr, x: torch.sparse.softmax(coo, 0),
    "out=": lambda coo, csr, x: torch.mul(coo, coo, out=torch.empty_like(coo)),
    "in place": lambda coo, csr, x: coo.clone().neg_(),
    "rows": lambda coo, csr, x: coo.index_select(0, torch.tensor([0, 2], device=x.device)),
    "compressed to_dense": lambda coo, csr, x: csr.to_dense(),
    "compressed to_sparse": lambda coo, csr, x: csr.to_sparse(),
    "compressed product": lambda coo, csr, x: csr @ x,
    "compressed sum of two": lambda coo, csr, x: csr + csr,
    "compressed sum": lambda coo, csr, x: torch.ops.aten._sparse_csr_sum(csr, [0], True),
    "sampled_addmm": lambda coo, csr, x: torch.sparse.sampled_addmm(csr, x, x),
}

def outcome(use, x):
    try:
        return use(x.to_sparse(), x.to_sparse_csr(), x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

x = torch.rand(5, 5, generator=torch.Generator().manual_seed(0))
x[x < 0.5] = 0
wrong = {}
for name in ("cuda_sm90", "xpu_pvc"):
    device = targets()[name].device
    with isolation.isolated(targets()[name], "deviceless", {}):
        for what, use in USES.items():
            got, want = outcome(use, x.to(device)), outcome(use, x)
            if isinstance(got, str):
                wrong[f"{device}: {what}"] = got[:300]
            elif (got.device.type, got.layout) != (device, want.layout):
                wrong[f"{device}: {what}"] = f"{got.device} {got.layout}"
            elif not torch.equal(got.cpu().to_dense(), want.to_dense()):
                wrong[f"{device}: {what}"] = f"{got} is not {want}"

results = {}
with isolation.isolated(targets()["cuda_sm90"], "deviceless", {}):
    one = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x, T y, T a) { return a * x * y; }", a=1)
    two = torch.cuda.jiterator._create_multi_output_jit_fn(
        "template <typename T> void f(T x, T& a, T& b) { a = x; b = x; }", num_outputs=2
    )
    def describe(tensor):
        return [str(tensor.device), str(tensor.dtype), list(tensor.shape), list(tensor.stride())]
    cuda = x.cuda()
    results["promoted"] = describe(one(cuda[0].int(), cuda.half(), a=2))
    results["transposed"] = describe(one(cuda[:3].t(), cuda[:, :3]))
    results["two"] = [describe(each) for each in two(cuda[0])]
    results["wrong"] = outcome(lambda *_: one(cuda, cuda, b=1), x)

from conformance.capture.emulation.fake_strides import DeviceStrides
strides = {}
for name in ("cuda_sm90", "xpu_pvc"):
    with isolation.isolated(targets()[name], "deviceless", {}), DeviceStrides():
        last = torch.ones(2, 3, 5, 11).to(memory_format=torch.channels_last).to(targets()[name].device)
        pads = {how: torch.nn.functional.pad(last, (3, 2, 1, 0), how) for how in ("reflect", "replicate")}
        strides[name] = {how: list(padded.stride()) for how, padded in (*pads.items(), ("relu", last.relu()))}

def cell_results(made, hidden, device, bias):
    torch.manual_seed(0)
    cell = made(7, 5, bias=bias).to(device)
    inputs = [torch.rand(3, size).to(device).requires_grad_() for size in (7, *[5] * hidden)]
    state = tuple(inputs[1:]) if hidden > 1 else inputs[1]
    result = cell(inputs[0], state)
    total = sum((each * each).sum() for each in (result if hidden > 1 else [result]))
    gradients = torch.autograd.grad(total, [*inputs, *cell.parameters()])
    return [each.detach().cpu() for each in (total, *gradients)]

cells = {}
for name in ("cuda_sm90", "xpu_pvc"):
    device = targets()[name].device
    for made, hidden in ((torch.nn.LSTMCell, 2), (torch.nn.GRUCell, 1)):
        for bias in (True, False):
            with isolation.isolated(targets()[name], "deviceless", {}):
                got = cell_results(made, hidden, device, bias)
            want = cell_results(made, hidden, "cpu", bias)
            off = max(float((one - other).abs().max()) for one, other in zip(got, want, strict=True))
            cells[f"{device}: {made.__name__}, bias {bias}"] = off < 1e-5
print("RESULT" + json.dumps([wrong, results, strides, cells]))
"""


@pytest.fixture(scope="module")
def found() -> tuple[dict, dict, dict, dict]:
    ran = run_python("-c", SCRIPT, timeout=300)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, ran.stdout + ran.stderr
    return json.loads(lines[0].removeprefix("RESULT"))


def test_sparse_tensors(found):
    assert found[0] == {}


def test_functions_of_cuda_cpp_look_as_on_a_device(found):
    """The results of an H200 with torch 2.11."""
    assert found[1] == {
        "promoted": ["cuda:0", "torch.float16", [5, 5], [5, 1]],
        "transposed": ["cuda:0", "torch.float32", [5, 3], [1, 5]],
        "two": [["cuda:0", "torch.float32", [5], [1]]] * 2,
        "wrong": "KeyError: 'b is not declared in function definition'",
    }


def test_padding_is_contiguous_on_a_gpu(found):
    """PyTorch's fake tensors know this only for cuda, from 2.13 on."""
    layout = {"reflect": [288, 96, 16, 1], "replicate": [288, 96, 16, 1], "relu": [165, 1, 33, 3]}
    assert found[2] == {"cuda_sm90": layout, "xpu_pvc": layout}


def test_recurrent_cells(found):
    """GPUs have fused kernels for them, with gradients of their own; CPUs have none."""
    assert len(found[3]) == 8
    assert all(found[3].values()), found[3]
