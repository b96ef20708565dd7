"""The native path on xpu, with a stand-in for the GPU: selftests/stand_in/xpu_stand_in.py says what it cannot try."""

from __future__ import annotations

import json

import pytest
from accidents import last_run
from standing_in import command, gpu, needs_stand_in, preload_gpu_free_worker
from suites import PreloadedSuite as Suite
from suites import empty_cache, run_python, section

from conformance.devices.targets import targets
from conformance.storage.check_results import Outcome

pytestmark = needs_stand_in

FILE = """
from conformance import case, tensor

@case(x=tensor(20, 30), dtype=["f32", "bf16"], grad=True)
def test_soft(x):
    return x.softmax(-1)

@case(x=tensor(20, 30), y=tensor(30, 20), mode=["inference", "autocast"])
def test_product(x, y):
    return x @ y + 1

@case(x=tensor(20, 30), dynamic=True)
def test_sizes(x):
    return (x + 1).sum(-1)

@case(weight=tensor(7, 5), grad=True)
def test_rows(weight):
    import torch
    return torch.nn.functional.embedding(torch.tensor([1, 6, 1], device=weight.device), weight)

@case(x=tensor(20), checks=["numerics"])
def test_wrong(x):
    import torch
    return x.cos() if torch.compiler.is_compiling() else x.sin()
"""
NATIVE = ("--target", "xpu_bmg", "--require-device")


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> dict[str, str]:
    preload_gpu_free_worker()
    return {"CONFORMANCE_CACHE": str(empty_cache(tmp_path_factory.mktemp("caches")))}


@pytest.fixture
def suite(tmp_path) -> Suite:
    project = Suite(tmp_path)
    project.write("ops/test_mine.py", FILE)
    return project


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_answers_of_torch():
    """torch.xpu's own code runs over the stand-in's functions."""
    script = """
import json, torch
xpu = torch.xpu
start, end = xpu.Event(enable_timing=True), xpu.Event(enable_timing=True)
start.record(); end.record(); xpu.synchronize(); end.synchronize()
errors = []
calls = [lambda: xpu.get_device_properties(1), lambda: xpu.set_device("cuda"), lambda: xpu.Event().elapsed_time(end)]
for call in calls:
    try:
        call()
    except (RuntimeError, ValueError, AssertionError) as error:
        errors.append(str(error))
xpu.empty_cache(); xpu.manual_seed(1)
print(json.dumps([torch.version.xpu, xpu.is_available(), xpu.device_count(), xpu.get_device_name(),
    xpu.current_device(), xpu.memory_allocated(), xpu.mem_get_info()[1], xpu.current_stream().device_index,
    xpu.is_initialized(), start.elapsed_time(end) >= 0, len(errors),
    xpu.get_device_capability()["gpu_subslice_count"]]))
"""
    ran = run_python("-c", script, env=gpu())
    assert ran.returncode == 0, ran.stderr
    row = targets()["xpu_bmg"].properties
    memory = row["total_memory"]
    expected = ["20260000", True, 1, row["name"], 0, 0, memory, 0, True, True, 3, 20]
    assert json.loads(ran.stdout) == expected


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_doctor(suite, cache):
    ran = command(suite, "doctor", env=gpu() | cache).ends(0)
    ran.has("native (Intel(R) Arc(TM) B580 Graphics, xpu_bmg); run here: xpu_bmg; only generated: xpu_pvc, ")
    ran = command(suite, "doctor", "--describe-device", env=gpu("xpu_dg2", gpu_subslice_count=28) | cache).ends(0)
    ran.has("[xpu_name_it]", "has_fp64 = false", "gpu_subslice_count = 28").has_not("uuid", "targets.toml has")


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_items_are_native_and_as_without_the_device(suite, cache):
    options = (*NATIVE, "--verify-deviceless", "--fresh", "--checks", "numerics,requirements", "-n", "2")
    ran = suite.run(*options, env=gpu() | cache).ends(1)
    ran.has("xpu native (Intel(R) Arc(TM) B580 Graphics, xpu_bmg)", "7 items: 7 native", "numerics passed: 6 native")
    items = {item.case: item for item in last_run(suite).items()}
    assert {item.mode for item in items.values()} == {"native"}
    assert {item.evidence for item in items.values()} == {"native"}
    assert items.pop("mine/wrong").outcome("numerics") is Outcome.FAILED
    assert {item.outcome("deviceless") for item in items.values()} == {Outcome.PASSED}


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_a_build_without_xpu_generates_the_same(suite, cache):
    """The run that is compared with has no stand-in: its torch is built without xpu."""
    suite.run("--target", "xpu_bmg", "--checks", "requirements", "--save-run", "without", "-k", "not wrong").ends(0)
    options = (*NATIVE, "--checks", "code", "--baseline", "without", "-k", "not wrong")
    suite.run(*options, env=gpu() | cache).ends(0).has("6 items = 6 passed")


STORY = """
from conformance import explanation

def test_story_beside_a_gpu_of_another_type():
    assert "kernels" in explanation(test_soft, "f32", target="cuda_sm90").facts
"""


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_a_story_about_another_type_of_gpu(suite, cache):
    suite.write("ops/test_mine.py", FILE + STORY)
    outcome = suite.run(*NATIVE, "-k", "story", env=gpu() | cache).ends(0).outcomes()
    assert sum(outcome.values()) - outcome.get("deselected", 0) == 1  # it is for one torch: skipped on others


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_a_gpu_without_a_row_is_compared_too(suite, cache):
    options = ("--target", "xpu_local", "--require-device", "--verify-deviceless", "--fresh", "-k", "soft")
    suite.run(*options, env=gpu(gpu_subslice_count=24) | cache).ends(0).has("numerics passed: 2 native")
    assert {item.outcome("deviceless") for item in last_run(suite).items()} == {Outcome.PASSED}


OTHER_CODE = """
from conformance.capture import isolation

original = isolation.inductor_options
isolation.inductor_options = lambda target: original(target) | {"triton.persistent_reductions": False}
"""


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_code_that_only_the_device_gives(cache, tmp_path):
    """The GPU-free worker reads no conftest: its code differs."""
    suite = Suite(tmp_path, 'pytest_plugins = ["conformance.plugin"]\n' + OTHER_CODE)
    suite.write("ops/test_mine.py", FILE)
    options = (*NATIVE, "--verify-deviceless", "--fresh", "--checks", "requirements", "-k", "soft and f32")
    ran = suite.run(*options, env=gpu() | cache).ends(1)
    lines = section(ran, "test_soft[f32-xpu_bmg] [deviceless]")
    assert "the code generated without the device differs from the device's own: facts changed:" in lines[0]


def test_other_devices_are_not_here(suite, cache):
    ran = suite.run("--device", "cuda", "--require-device", env=gpu() | cache).ends(4)
    ran.has("--require-device: this machine has no cuda device of the selected targets (cuda: deviceless)")
    ran = suite.run("--target", "xpu_pvc", "--require-device", env=gpu() | cache).ends(4)
    ran.has("no xpu device of the selected targets (xpu: native (Intel(R) Arc(TM) B580 Graphics, xpu_bmg))")


@pytest.mark.long("its processes load a stand-in for torch.xpu, and the GPU-free worker beside it")
def test_a_lost_device_fails_one_item(suite, cache):
    """After the second item, each call of synchronize raises: a fresh process runs the rest."""
    options = (*NATIVE, "--fresh", "--checks", "numerics", "-k", "soft or sizes")
    ran = suite.run(*options, env=gpu() | cache | {"STAND_IN_LOST": "1"}).ends(1)
    ran.has("has broken the xpu context (Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST))")
    failed = [item.case for item in last_run(suite).items() if item.outcome("device") is Outcome.FAILED]
    assert failed == ["mine/soft-bf16"]
    ran.has("3 items = 2 passed + 1 failed")


@pytest.mark.parametrize("options", [("--backend", "aot_eager"), ("--via", "export")], ids=" ".join)
def test_other_backends(suite, cache, options):
    suite.run(*NATIVE, *options, "-k", "soft", env=gpu() | cache).ends(0).has("numerics passed: 2 native")


def test_bench(suite, cache):
    words = ("bench", "mine/soft-f32", "ops", "--device", "xpu", "--min-time", "0.05", "--json", "times.json")
    command(suite, *words, env=gpu() | cache).ends(0).has("xpu_bmg (Intel(R) Arc(TM) B580 Graphics); torch ")
    [row] = json.loads((suite.root / "times.json").read_text())["rows"]
    assert set(row["times"]) == {"eager", "compiled", "copy"}


def test_show(suite, cache):
    words = ("show", "ops/test_mine.py::mine/soft-f32", "--target", "xpu_bmg", "--facts", "--numerics")
    ran = command(suite, *words, env=gpu() | cache).ends(0)
    ran.has("# mine/soft-f32 for xpu_bmg: compiled and run here; ", "numerics    right: ").has_not("emulated")
