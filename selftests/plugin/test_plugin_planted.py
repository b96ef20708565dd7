"""Mistakes planted in Inductor: the suite fails, and the message begins with the fact that changed."""

from __future__ import annotations

import pytest
from suites import NATIVE, section
from suites import PreloadedSuite as Suite

CASES = """
from conformance import case, tensor

@case(x=tensor(64, low=1, high=2))
def test_wrong(x):
    return x * 2

@case(x=tensor(64))
def test_fallback(x):
    return x.sin()

@case(x=tensor(64), y=tensor(64))
def test_fused(x, y):
    return x + y, (x - y).sum()

@case(x=tensor(64), require={"cpu": {"vectorised": "yes"}})
def test_scalar(x):
    return x + 1

@case(x=tensor(64))
def test_other(x):
    return x - 1
"""

#: Changes that an engineer may have made to Inductor. They are planted once torch is imported.
CONFTEST = """
import os

pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    if "PLANTED" not in os.environ:
        return
    import torch
    from torch._inductor import config, lowering
    aten = torch.ops.aten
    before, add = lowering.lowerings[aten.mul.Tensor], lowering.lowerings[aten.add.Tensor]
    lowering.lowerings[aten.mul.Tensor] = lambda a, b: add(before(a, b), 1)
    lowering.lowerings.pop(aten.sin.default)
    lowering.make_fallback(aten.sin.default, warn=False)
    config.max_fusion_size = 1
    config.cpp.simdlen = 1
"""

ITEMS = [
    f"ops/test_planted.py::test_{name}[{target}]"
    for name, target in (
        ("wrong", NATIVE),
        ("fallback", "cuda_sm90"),
        ("fused", "cuda_sm90"),
        ("scalar", NATIVE),
        ("other", "cuda_sm90"),
    )
]


@pytest.mark.long("it runs all planted faults on each check")
def test_planted(tmp_path):
    suite = Suite(tmp_path, CONFTEST)
    suite.write("ops/test_planted.py", CASES)
    suite.accept(*ITEMS).ends(0).has("snapshots: 5 new, 0 changed, 0 unchanged")
    stored = suite.stored()
    suite.write("ops/expected_code/planted/other.txt", stored["planted/other.txt"].replace("tl.load", "tl.loads"))

    ran, found = suite.checks(*ITEMS, "-v", env={"PLANTED": "1"})
    ran.ends(1)
    outcomes = {(kind.rpartition(".")[2], name.partition("[")[0]): outcome for kind, name, outcome, _ in found}

    assert outcomes["numerics", "test_wrong"] == "failure"
    numerics = section(ran, f"test_wrong[{NATIVE}] [numerics]")
    assert "disagrees with eager" in numerics[0]
    assert "64 of 64 elements are wrong" in numerics[1]
    assert any(line.startswith("to reproduce: pytest ") for line in numerics)

    assert first_facts(ran, "planted/fallback-cuda_sm90", "test_fallback[cuda_sm90] [code]") == [
        "kernels  1: sin (pointwise 64) → none",
        "fallbacks  none → aten.sin (make_fallback: no lowering)",
        "buffers  1 allocated → 0 allocated",
    ]
    kernels, *_ = first_facts(ran, "planted/fused-cuda_sm90", "test_fused[cuda_sm90] [code]")
    assert kernels.startswith("kernels  ")
    assert " → 2" in kernels
    vectorised = first_facts(ran, f"planted/scalar-{NATIVE}", f"test_scalar[{NATIVE}] [code]")
    assert any(line.startswith("vectorised ") and " yes" in line and "→ no" in line for line in vectorised)
    assert outcomes["requirements", "test_scalar"] == "failure"
    assert outcomes["numerics", "test_scalar"] == "passed"

    code = section(ran, "test_other[cuda_sm90] [code]")
    assert code[0] == "planted/other-cuda_sm90: facts unchanged"
    assert any(line.startswith("-") and "tl.loads" in line for line in code)
    assert "accept it with: EXPECTTEST_ACCEPT=1 pytest 'ops/test_planted.py::test_other[cuda_sm90]'" in code
    [artifacts] = [line.removeprefix("artifacts: ") for line in code if line.startswith("artifacts: ")]
    assert sorted(path.name for path in (tmp_path / artifacts).iterdir()) == [
        "0_inference_graph.py",
        "0_inference_ir_post_fusion.txt",
        "0_inference_ir_pre_fusion.txt",
        "0_inference_output_code.py",
        "code.txt",
        "reproduce.py",
    ]
    assert {name: text for name, text in suite.stored().items() if "other" not in name} == {
        name: text for name, text in stored.items() if "other" not in name
    }

    # Without -v, pytest lists what no cause explains, and the wrong number is nearest to the prompt.
    ran = suite.run(*ITEMS, env={"PLANTED": "1", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}).ends(1)
    lists, _, ending = ran.text.partition("- conformance -")
    assert "[code]" not in lists
    assert "contains 1 failed subtest" not in lists
    assert lists.index("SUBFAILED[requirements]") < lists.index("SUBFAILED[numerics]")
    *_, numerics, account, _ = ending.splitlines()
    assert numerics.startswith(f"numerics failed: planted/wrong-{NATIVE}: ")
    assert account == "5 items = 5 failed; next: python -m conformance review"
    assert account in (tmp_path / "summary.md").read_text()
    everything = suite.run(*ITEMS, "-rA", env={"PLANTED": "1"}).ends(1)
    assert "  of cause 1 of 4: vectorised  yes → no" in everything.text
    assert everything.text.count("SUBFAILED[code]") == 5


def first_facts(ran, item: str, title: str) -> list[str]:
    """The changed facts. A failure of the check `code` lists them first."""
    head, *lines = section(ran, title)
    assert head == f"{item}: facts changed:"
    return lines[: lines.index("")]
