"""Captures in one process do not affect each other, and restore torch."""

from __future__ import annotations

import json

import pytest
from suites import NATIVE, run_python

#: Captures for the targets that its arguments name, in order. Prints as JSON the texts and what was not restored.
SCRIPT = """
import json, re, sys
from pathlib import Path

from conformance.compiler.case_request import capture
from conformance.compiler.case_request import CaseRequest
from conformance.capture.deviceless.prepare import prepare
prepare()

from conformance.capture import isolation
from conformance.capture.observers import kernels
from conformance.capture.patching.patch import owner
from conformance.capture.toolchain import cpu_isa
from conformance.cases.case import Case
from conformance.facts import extract
from conformance.cases.inputs import image, tensor
from conformance.devices.targets import targets
from conformance.normalize.text import snapshot_text

def mean(x):
    return x.float().mean(), x.flip(-1)

x = image(3, dtype="u8")
case = Case(operator="isolation", name="mean", labels=(), fn=mean, file=Path(__file__), arguments={"x": x},
            choices={"x": x.properties})

def loss(q, k):
    return (q @ k).relu().sum()

q = tensor(64, 64, dtype="bf16")
product = Case(operator="isolation", name="loss", labels=(), fn=loss, file=Path(__file__),
                 arguments={"q": q, "k": q}, choices={"q": q.properties, "k": q.properties}, grad=("q", "k"))

def current(patch):
    place, name = owner(patch.where)
    return vars(place).get(name)

def state():
    import torch
    from torch._dynamo import device_interface
    from torch._inductor import config
    values = {}
    for target in targets().values():
        for patch in [*isolation.patches(target, "deviceless"), *kernels.patches(), *cpu_isa.CODEGEN_PATCHES]:
            if not patch.is_missing():
                values[patch.where] = id(current(patch))
    values["interfaces"] = sorted((k, id(v)) for k, v in device_interface.device_interfaces.items())
    values["options"] = {k: repr(v) for k, v in config.get_config_copy().items()}
    values["devices"] = [torch.cuda.is_available(), torch.xpu.is_available(), torch.is_grad_enabled()]
    return values

texts, before, changed = [], None, []
for name in sys.argv[1:]:
    target, _, mode = name.partition(":")
    texts.append("")
    for each in (case, product):
        if mode == "native" and each is product:
            continue
        with capture(CaseRequest(each, targets()[target], mode or "deviceless")) as result:
            texts[-1] += snapshot_text(result.capture, extract(result.capture).lines(), targets()[target].device)
            for module in result.capture.modules:  # snapshots leave these out
                texts[-1] += "\\n".join(re.findall(r"DeviceProperties[(].*?[)]", module.code))
    after = state()
    if before is not None:
        changed += [key for key in after if after[key] != before[key]]
    before = after
print("RESULT" + json.dumps([texts, changed]))
"""


def texts(tmp_path, *targets: str) -> list[str]:
    script = tmp_path / "captures.py"
    script.write_text(SCRIPT)
    ran = run_python(script, *targets, timeout=300)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, ran.stdout + ran.stderr
    found, changed = json.loads(lines[0].removeprefix("RESULT"))
    assert not changed
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("alone")
    return {target: texts(folder, target)[0] for target in ("cuda_sm80", "cuda_sm90", "cuda_sm100")}


@pytest.fixture(scope="module")
def rocm_alone(tmp_path_factory) -> str:
    return texts(tmp_path_factory.mktemp("rocm"), "rocm_gfx942")[0]


@pytest.mark.long("it captures in fresh processes, once for each order of the devices")
def test_every_order_of_gpus(tmp_path, alone):
    a, b, c = alone
    orders = [a, b, c, a, c, b, a, b, c, b, a, c, a, b]  # each of the six orders of three, one after the other
    assert {tuple(orders[i : i + 3]) for i in range(12) if len(set(orders[i : i + 3])) == 3} == {
        (x, y, z) for x in alone for y in alone for z in alone if len({x, y, z}) == 3
    }
    found = texts(tmp_path, *orders)
    assert [target for target, text in zip(orders, found, strict=True) if text != alone[target]] == []
    assert len(set(alone.values())) == 3, "the three GPUs must get different code, or this test checks nothing"


@pytest.mark.long("it captures in fresh processes, once for each order of the devices")
@pytest.mark.parametrize("order", [("cuda_sm90", "rocm_gfx942"), ("rocm_gfx942", "cuda_sm90")], ids="-".join)
def test_platforms_alternate(tmp_path, alone, rocm_alone, order):
    """PyTorch calls GPUs of NVIDIA and AMD cuda, and keeps much for each device type."""
    own = {"cuda_sm90": alone["cuda_sm90"], "rocm_gfx942": rocm_alone}
    found = texts(tmp_path, *order, *order)
    assert [target for target, text in zip(order * 2, found, strict=True) if text != own[target]] == []
    assert "type='hip'" in rocm_alone
    assert "hip" not in alone["cuda_sm90"]


@pytest.mark.long("it captures in fresh processes, once for each order of the devices")
def test_devices_alternate(tmp_path, alone):
    native = f"{NATIVE}:native"
    order = ["cuda_sm90", native, "xpu_pvc", "cuda_sm90", "xpu_pvc", native, "cpu_neon", "cuda_sm80", "xpu_bmg", native]
    found = dict.fromkeys(order)
    for target, text in zip(order, texts(tmp_path, *order), strict=True):
        assert found[target] in (None, text), f"{target} depends on the captures before it"
        found[target] = text
    assert found["cuda_sm90"] == alone["cuda_sm90"]
    assert found["cuda_sm80"] == alone["cuda_sm80"]
