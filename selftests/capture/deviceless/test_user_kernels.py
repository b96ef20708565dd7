"""User-written Triton kernels and torch.cond without the device: kernels that eager launches are interpreted too."""
# ruff: noqa: N803 - constants are named as Triton's users name them

from dataclasses import replace

import pytest

from conformance import case, tensor
from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import torch  # noqa: E402 - after prepare()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from conformance.capture.deviceless import user_kernels  # noqa: E402
from conformance.capture.emulation.errors import EmulationError  # noqa: E402
from conformance.capture.emulation.fake_strides import with_device_strides  # noqa: E402
from conformance.capture.patching.patch import applied  # noqa: E402
from conformance.cases.selectors import DeclarationError, exclusion  # noqa: E402
from conformance.compiler.case_request import CaseRequest, capture  # noqa: E402
from conformance.devices.environment import torch_build  # noqa: E402
from conformance.devices.targets import targets  # noqa: E402
from conformance.expectations.requirements import validate  # noqa: E402
from conformance.facts import extract  # noqa: E402
from conformance.numerics.check import check_numerics  # noqa: E402

SM90, PVC = targets()["cuda_sm90"], targets()["xpu_pvc"]


@triton.jit
def doubling(x_ptr, y_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, place < n if MASKED else None)
    tl.store(y_ptr + place, 2 * x, place < n)


def doubled(x, masked=True):
    y = torch.empty_like(x)
    doubling[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), masked, BLOCK=16)
    return y


@case(x=tensor(50))
def test_doubled(x):
    return doubled(x + 1)


@case(x=tensor(50), config={"fused": {"epilogue_fusion_user_defined_triton_kernel": True}})
def test_fused(x):
    return doubled(x).relu()


@case(x=tensor(50))
def test_beyond(x):
    return doubled(x, masked=False)


@case(x=tensor(6, 4))
def test_branch(x):
    return torch.cond(x.abs().sum() > 0, lambda x: torch.cat([x, x]), lambda x: torch.cat([x, -x]), (x.mT,))


def check_emulated(function, target=SM90):
    one = function.cases[0]
    with capture(CaseRequest(one, target, emulate=True)) as result:
        check_numerics(
            replace(one, fn=with_device_strides(one.fn)),
            result.compiled,
            target.device,
            target.name,
            already_called=True,
        )
        return result.capture


@pytest.mark.parametrize("target", [SM90, PVC], ids=lambda target: target.name)
def test_a_users_kernel_is_emulated_and_is_a_kernel_of_the_facts(target):
    found = extract(check_emulated(test_doubled, target))
    assert found.value("kernels") == 2
    assert found.value("kinds") == ["pointwise", "user-defined"]
    assert found.value("extern") == found.value("fallbacks") == []
    assert "doubling (user-defined)" in found.lines()["kernels"]


@pytest.mark.skipif(torch_build().release < (2, 13), reason="torch 2.13 has the option first")
def test_a_users_kernel_with_what_is_fused_into_it():
    found = extract(check_emulated(test_fused))
    assert (found.value("kinds"), found.value("extern")) == (["user-defined"], [])
    assert found.lines()["bytes"] == "200 read, 200 written: the least"


def test_out_of_bounds_is_found_at_the_users_line():
    with pytest.raises(EmulationError) as error:
        check_emulated(test_beyond)
    assert "doubling, program (3, 0, 0), line " in str(error.value)
    assert "x = tl.load(x_ptr + place" in str(error.value)
    assert "element 50 of x_ptr, which has 50 elements (14 of 64 accesses)" in str(error.value)


def test_on_the_cpu_it_is_interpreted_natively_too():
    """On a machine with a GPU, float64 results are computed on the CPU: no driver launches a kernel there."""
    x = torch.arange(50, dtype=torch.float64)
    with applied(user_kernels.patches(pretended=False)):
        assert torch.equal(doubled(x), 2 * x)
        with pytest.raises(TypeError, match="missing a required argument: 'BLOCK'"):
            doubling[(4,)](x, x, 50, True, BLOKC=16)


def test_results_of_a_branch_have_the_devices_strides():
    check_emulated(test_branch)


def test_a_case_says_where_alone_it_can_be_run():
    @case(x=tensor(5), only={"gpu torch>=2.0": "Triton has no backend for the cpu"})
    def test_there(x):
        return x

    @case(x=tensor(5), only={"tpu": "a mistake"})
    def test_nowhere(x):
        return x

    [there], [nowhere] = test_there.cases, test_nowhere.cases
    assert exclusion(there, SM90) == ""
    assert "Triton has no backend" in exclusion(there, targets()["cpu_avx2"])
    validate([there], targets().values())
    with pytest.raises(DeclarationError, match="'tpu' is no target"):
        validate([nowhere], targets().values())


# Cases for the tests above, not tests.
for _function in (test_fused, test_doubled, test_beyond, test_branch):
    _function.__test__ = False
