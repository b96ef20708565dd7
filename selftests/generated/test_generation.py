"""`generate` as a notebook uses it: without a project, a case or a run."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conformance import generate
from conformance.capture.compiler_options import OptionError
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.compiler.compiler import compiler_here
from conformance.devices import environment
from conformance.devices.environment import PreparationError
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError
from conformance.facts import FactError, extract
from conformance.generated.capture_texts import code_text

torch = pytest.importorskip("torch")

NEEDS_TRITON = pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed")


def scaled_sum(x):
    return (x * 2).relu().sum(-1)


@NEEDS_TRITON
def test_code_is_that_of_a_case():
    found = generate(scaled_sum, torch.ones(8, 30), device="cuda_sm90")
    compiler = compiler_here()
    options = AdhocOptions(("x=8x30",), (), False, ())
    case, _ = resolve_case("lambda x: (x * 2).relu().sum(-1)", compiler.machine.targets(), options)
    with compiler.generate(case, compiler.target("cuda_sm90"), deviceless=True) as result:
        assert found.code == code_text(result.capture, found.target)
        assert found.facts.lines() == extract(result.capture).lines()
    assert found.origin.startswith("generated without the device; torch ")


@NEEDS_TRITON
@pytest.mark.parametrize("device", ["cuda_sm90", "xpu_pvc"])
def test_kernels_facts_and_stages(device):
    found = generate(torch.softmax, torch.rand(8, 30), dim=-1, device=device)
    (kernel,) = found.kernels
    assert kernel.startswith("triton_per_fused__softmax_")  # the rest of the name depends on torch
    assert found.facts.value("kernels") == 1
    assert "softmax" in found.graph
    assert "SchedulerNode" in found.ir
    assert "async_compile.triton" in found.raw
    assert "tl.load" in found.code
    for launch, text in found.stage("ttir").items():
        assert launch.startswith("triton_per_fused")
        assert "tt.load" in text
    ((name, launches),) = found.launches().items()
    assert name in found.kernels
    assert launches
    with pytest.raises(FactError):
        found.facts.value("no_such_fact")


@NEEDS_TRITON
def test_runs_are_emulated_and_give_what_eager_gives():
    x = torch.rand(8, 30)
    found = generate(torch.softmax, x, dim=-1, device="cuda_sm90")
    torch.testing.assert_close(found.run(), x.softmax(-1))
    other = torch.rand(8, 30)
    torch.testing.assert_close(found.run(other, dim=-1), other.softmax(-1))
    with found.compiled() as function:
        for _ in range(2):
            assert function(x.to("cuda"), dim=-1).device.type == "cuda"


def test_on_the_cpu_with_gradients_options_and_dynamic_shapes():
    x = torch.rand(8, 30, requires_grad=True)
    found = generate(scaled_sum, x, device="cpu_avx2", dynamic=True, options={"cpp.simdlen": 0})
    assert [module.kind for module in found.capture.modules] == ["forward", "backward"]
    assert found.facts.value("vectorised") == "no"
    assert "ks0" in found.code
    torch.testing.assert_close(found.run(), scaled_sum(x).detach())
    assert found.run(torch.ones(3, 4)).tolist() == [8.0] * 3


@NEEDS_TRITON
def test_a_module_goes_to_the_device_with_its_parameters():
    module, x = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()), torch.rand(4, 8)
    found = generate(module, x, device="cuda_sm90")
    assert [each.kind for each in found.capture.modules] == ["forward", "backward"]
    torch.testing.assert_close(found.run(), module(x).detach())
    torch.testing.assert_close(found.run(x * 2), module(x * 2).detach())
    assert generate(module, x, device="xpu_pvc", mode="no_grad").capture.modules[0].kind == "inference"
    assert next(module.parameters()).device.type == "cpu"


def test_wrong_arguments_say_what_is_right(monkeypatch):
    x = torch.ones(3)
    with pytest.raises(TargetError, match="unknown device 'cuda_sm91'; did you mean 'cuda_sm90'"):
        generate(torch.sin, x, device="cuda_sm91")
    with pytest.raises(OptionError, match="nearest: max_autotune"):
        generate(torch.sin, x, device="cpu_avx2", options={"max_autotun": True})
    with pytest.raises(ValueError, match="mode is 'train'; it must be one of plain, no_grad"):
        generate(torch.sin, x, device="cpu_avx2", mode="train")
    monkeypatch.setattr(environment, "triton_version", lambda: "")
    with pytest.raises(PreparationError, match=r"cuda_sm90: .*[Tt]riton"):
        generate(torch.sin, x, device="cuda_sm90")
    real = Machine.detect()
    other = SimpleNamespace(targets=real.targets, is_native=lambda _: False, gpus={"cuda": {}})
    monkeypatch.setattr(Machine, "detect", lambda: other)
    with pytest.raises(PreparationError, match="xpu_pvc: this process uses a GPU of this machine"):
        generate(torch.sin, x, device="xpu_pvc")


def script(text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


TORCH_FIRST = """
import torch
x = torch.ones(8, 30)
from conformance import generate
found = generate(torch.softmax, x, dim=-1, device="cuda_sm90")
print(found.facts.value("kernels"), found.run().sum().item())
"""


@NEEDS_TRITON
def test_torch_may_be_imported_first():
    ran = script(TORCH_FIRST)
    assert ran.stdout.split() == ["1", "8.0"], ran.stderr


@NEEDS_TRITON
def test_torch_was_imported_with_a_variable_that_changes_code():
    ran = script(TORCH_FIRST, TORCHINDUCTOR_MAX_AUTOTUNE="1")
    assert ran.stderr.splitlines()[-1].endswith(
        "cuda_sm90: torch was imported with TORCHINDUCTOR_MAX_AUTOTUNE set, which changes code: unset it, or import "
        "conformance before torch"
    )


def dropped(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: torch.nn.functional.dropout(y.relu(), 0.5), x, use_reentrant=False)


@NEEDS_TRITON
@pytest.mark.parametrize("device", ["cuda_sm90", "xpu_pvc"])
def test_a_checkpoint_draws_the_same_numbers_again(device):
    """Its backward restores the state of the device's generator, which stands for that of the CPU."""
    x = torch.rand(16, 32, requires_grad=True)
    found = generate(dropped, x, device=device, options={"fallback_random": True})
    with found.compiled() as function:
        on_device = x.detach().to(device.partition("_")[0]).requires_grad_()
        result = function(on_device)
        (gradient,) = torch.autograd.grad(result.sum(), on_device)
        torch.testing.assert_close(gradient.cpu(), (result.detach().cpu() != 0).float() * 2)
