"""Each patch of torch is needed: without it, a tiny capture raises or gives another result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from suites import run_python

from conformance.devices.environment import torch_build

DRIVER = Path(__file__).with_name("patches_driver.py")

#: These targets have all patches. A patch that two targets share is tested with the first one, but not with the target
#: that this machine would choose itself: there, nothing changes without the patch.
TARGETS = ("cuda_sm90", "xpu_pvc", "cpu_avx2", "cpu_avx512", "cpu_amx", "cpu_neon")

LISTED = """
import json, sys
from conformance.capture import exploration, isolation
from conformance.capture.deviceless.prepare import prepare
from conformance.capture.toolchain import cpu_isa
prepare()
from conformance.devices.targets import targets
from torch._inductor.cpu_vec_isa import pick_vec_isa
hosts_own = str(pick_vec_isa())
explored = exploration.Explorer("", "", [], []).patches()
wanted = sorted(json.loads(sys.argv[1]), key=lambda each: targets()[each[0]].isa == hosts_own)

# Those of CPU kernels beside a GPU are tested with the cpu target of the same instruction set.
beside = {patch.where for patch in cpu_isa.patches(cpu_isa.isa_beside_gpu())}

def patches(name, mode):
    found = isolation.patches(targets()[name], mode)
    if name.startswith("cpu"):
        return found + cpu_isa.CODEGEN_PATCHES
    return [patch for patch in found if patch.where not in beside] + explored

print("RESULT" + json.dumps({
    name: [[patch.where, patch.why] for patch in patches(name, mode)
           if patch.applies() and not (patch.optional and patch.is_missing())]
    for name, mode in wanted
}))
"""


#: Before, nothing changes without it.
NEEDED_FROM = {
    "torch._higher_order_ops.triton_kernel_wrap:generate_ttir": (2, 13),
    "torch._inductor.kernel.bmm:aten_bmm_dtype.cpp_kernel_name": (2, 13),  # before, there is no C++ wrapper to see
}


def result(*command: str) -> dict:
    ran = run_python(*command, timeout=900)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, ran.stdout + ran.stderr
    return json.loads(lines[0].removeprefix("RESULT"))


@pytest.mark.long("it captures the same cases once without each patch, in fresh processes")
def test_every_patch_is_needed():
    listed = result("-c", LISTED, json.dumps([(target, "deviceless") for target in TARGETS]))
    why: dict[str, str] = {}
    wanted: dict[str, list[str]] = {target: [] for target in TARGETS}
    for target in listed:
        for where, reason in listed[target]:
            if where not in why:
                wanted[target].append(where)
            why[where] = reason
    problems = []
    for target, outcomes in result(str(DRIVER), json.dumps(wanted)).items():
        for where, (whole, without) in outcomes.items():
            if whole.startswith(("raises", "the process dies", "does not end")):
                problems.append(f"{where}: with all patches, its capture for {target} {whole[:300]}")
            elif whole == "unknown":
                problems.append(f"{where}: a new patch: add a function to patch_outcomes.OUTCOMES that needs it")
            elif whole == without and torch_build().release >= NEEDED_FROM.get(where, (0, 0)):
                problems.append(f"{where}: nothing changes for {target} without it: delete the patch ({why[where]})")
    assert not problems, "\n".join(problems)
