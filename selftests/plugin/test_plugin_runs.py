"""--baseline compares with another run; drift compares with the snapshots of another torch version."""

from __future__ import annotations

import json

from suites import SM90, section

BEFORE = {"return x * 2": "return x * 3"}


def test_before_and_after(suite):
    suite.run(*SM90, "--save-run", "before").ends(1)
    suite.run(*SM90, "-k", "f32", "--baseline", "before").ends(0).has_not("nothing is stored")
    file = suite.root / "ops/test_scale.py"
    file.write_text(file.read_text().replace("return x * 2", "return x * 3"))
    ran, found = suite.checks("--target", "cuda_sm90,cuda_sm80", "--baseline", "before", "-n", "2", "-k", "f32")
    ran.ends(1)
    code = section(ran, "test_double[f32-cuda_sm90] [code]")
    assert code[0] == "scale/double-f32-cuda_sm90: facts unchanged"
    assert not [line for line in code if line.startswith("accept it with")]
    why = "the run before has no scale/double-f32-cuda_sm80"
    assert ("ops.test_scale.code", "test_double[f32-cuda_sm80]", "skipped", why) in found
    assert not suite.stored()
    last = suite.root / ".conformance/runs/last"
    assert last.is_symlink()
    assert json.loads((last / "items/scale/double-f32-cuda_sm80.json").read_text())["cpu_seconds"] > 0
    suite.run("--baseline", "earlier").ends(4).has("there is no run 'earlier'; existing runs: ", "before")


def test_drift(accepted):
    """On a torch without snapshots, code is compared with the nearest version."""
    for name, text in accepted.stored().items():
        other = text.replace(text.split(":")[0], "== torch 2.7", 1).replace("1: mul", "2: mul")
        accepted.write(f"ops/expected_code/{name}", other if "f16" in name else text.replace("torch 2.", "torch 1."))
    ran = accepted.run(*SM90).ends(0)
    assert [line.partition(" from")[0] for line in ran.lines("drift: ")] == ["drift: scale/double-f16-cuda_sm90:"]
    ran.has("from torch 2.7: kernels", "2: mul (pointwise 20) → 1: mul (pointwise 20)")
    ran = accepted.run(*SM90, "--fail-on-drift").ends(1)
    ran.has("scale/double-f16-cuda_sm90: drift from torch 2.7: facts changed:")
    ran.has("accept it with: EXPECTTEST_ACCEPT=1 pytest 'ops/test_scale.py::test_double[f16-cuda_sm90]'")
    ran.has("without --fail-on-drift, a run reports drift and does not fail")
