"""Cases run by other backends of torch.compile, by TorchScript and by torch.export."""

import pytest
import torch
from suites import NATIVE, STALE_STATUS, WRONG_OUTPUT
from suites import PreloadedSuite as Suite

from conformance import case, tensor
from conformance.compiler.backends import BackendError, backend_named, function_via
from conformance.devices.machine import instruction_sets
from conformance.numerics.check import check_numerics

pytestmark = pytest.mark.skipif(not NATIVE, reason="no cpu target of the table is here")

BACKEND = """
def wrong(graph, inputs):
    return lambda *args: [each + 1 for each in graph(*args)]

def plain(graph, inputs):
    return graph
"""


def scaled(x, factor):
    return torch.sin(x) * factor


def cases_of(**declared):
    scaled.__name__ = "test_scaled"
    return case(x=tensor(4, 9), factor=2.5, **declared)(scaled).cases


@pytest.mark.parametrize("via", ["compile", "jit_trace", "jit_script", "export"])
@pytest.mark.parametrize("declared", [{}, {"grad": True}, {"dynamic": True}], ids=["forward", "backward", "dynamic"])
def test_each_via_passes_numerics(via, declared):
    (a_case,) = cases_of(**declared)
    with function_via(a_case, via, "aot_eager", "cpu") as function:
        assert check_numerics(a_case, function, "cpu").measurements


def test_the_dynamo_options_of_a_case_hold_for_any_backend():
    def counted(x):
        return x.sum().item() * x  # a graph break, unless Dynamo's option is set

    counted.__name__ = "test_counted"
    (a_case,) = case(x=tensor(7), config={"dynamo.capture_scalar_outputs": True})(counted).cases
    with function_via(a_case, "compile", "eager", "cpu") as function:
        torch._dynamo.utils.counters.clear()
        function(**a_case.build())
        assert not torch._dynamo.utils.counters["graph_break"]


def test_backends_by_name_and_by_function():
    assert backend_named("eager") == "eager"
    assert backend_named("torch._dynamo.backends.debugging:eager") is torch._dynamo.backends.debugging.eager
    for name, text in {
        "frobnicate": "unknown backend 'frobnicate'; torch ",
        "no_such_module:f": "No module named 'no_such_module'",
        "math:pi": "a backend is a function",
        "math:frobnicate": "no attribute 'frobnicate'",
    }.items():
        with pytest.raises(BackendError) as caught:
            backend_named(name)
        assert text in str(caught.value)


def test_a_suite_by_another_backend(suite: Suite):
    suite.write("mine.py", BACKEND)
    suite.write("conftest.py", 'import sys\nsys.path.insert(0, ".")\npytest_plugins = ["conformance.plugin"]\n')
    wrong = suite.run("--target", NATIVE, "--backend", "mine:wrong", "-k", "f32").ends(1)
    wrong.has("compiled disagrees with eager", "--checks numerics --backend mine:wrong")
    ran, checks = suite.checks("--target", NATIVE, "--backend", "mine:plain", "-k", "f32")
    ran.ends(0).has("numerics passed: 1 native")  # the device ran it, although no code was captured
    assert [message for *_, outcome, message in checks if outcome == "skipped"] == [
        "--backend mine:plain: this check is only for Inductor's code"
    ] * 2


def test_another_backend_compiles_for_the_widest_instruction_set(suite: Suite):
    """Nothing tells it another one, so the items of a narrower target would test the same code and claim another."""
    targets = [f"cpu_{isa}" for isa in instruction_sets()]
    if len(targets) == 1:
        pytest.skip("this CPU has one of the instruction sets of targets.toml")
    chosen = ("--target", ",".join(targets), "--backend", "eager", "--checks", "numerics", "-k", "f32")
    ran, checks = suite.checks(*chosen)
    ran.ends(0).has("numerics passed: 1 native")
    assert [message for *_, outcome, message in checks if outcome == "skipped"] == [
        f"--backend eager compiles for this CPU and not for {each}: {targets[-1]} tests the same code"
        for each in targets[:-1]
    ]


def test_wrong_options_end_at_once(suite: Suite):
    suite.run("--via", "frobnicate", *("--target", NATIVE)).ends(4).has(
        "unknown --via 'frobnicate'; known are compile, jit_trace, jit_script, export"
    )
    suite.run("--via", "export", "--backend", "eager", "--target", NATIVE).ends(4).has("leave --via export out")


RAISING = """
import torch
from conformance import case, tensor

RAISES = {"raises": "RuntimeError"}

@case(x=tensor(4), require={"all": {"kernels": 1}}, numerics=RAISES)
def test_while_tracing(x):
    return x.view(3, 3)

@case(x=tensor(4), numerics={"for": {"cpu": RAISES}})
def test_here(x):
    return x.view(3, 3)

@case(x=tensor(4, dtype="i32"), index=tensor(4, dtype="i64", low=9, high=10), numerics=RAISES)
def test_when_called(x, index):
    return x.gather(0, index)

@case(x=tensor(1, 4), numerics={"raises": "ValueError"})
def test_another_type(x):
    return torch.nn.functional.batch_norm(x, None, None, training=True)
"""


def test_compiled_raises_where_eager_does(suite: Suite):
    suite.write("ops/test_scale.py", RAISING)
    suite.accept("--target", NATIVE, "-k", "not another").ends(0)
    text = suite.stored()["scale/while_tracing.txt"]
    raised = "compiling raises TorchRuntimeError (of RuntimeError): shape '[3, 3]' is invalid for input of size 4"
    assert text.endswith(f"code        none: {raised}\n")
    assert "1: gather (pointwise 4, serial)" in suite.stored()["scale/when_called.txt"]
    ran, checks = suite.checks("--target", NATIVE)
    ran.ends(1)
    skipped = [message for *_, outcome, message in checks if outcome == "skipped"]
    assert skipped == [f"there is no code to check kernels: {raised}"]
    failed = {name for _, name, outcome, _ in checks if outcome == "failure"}
    assert all("another_type" in name for name in failed), failed
    ran.has("numerics['raises'] is 'ValueError', and compiled raised TorchRuntimeError (of ValueError): Expected more")
    for via in ("jit_trace", "jit_script", "export"):
        suite.run("--target", NATIVE, "--via", via, "--checks", "numerics", "-k", "not another").ends(0)


LIMITED = """
import torch
from conformance import case, tensor

@case(x=tensor(4))
def test_by_value(x):
    return x + 1 if x.sum() > 9 else x - 1

@case(x=tensor(4))
def test_plain(x):
    return x + 1
"""


def test_a_case_that_export_cannot_run_is_skipped_with_its_message(suite: Suite):
    suite.write("ops/test_scale.py", LIMITED)
    ran, checks = suite.checks("--target", NATIVE, "--via", "export", "--checks", "numerics")
    ran.ends(0)
    (message,) = (message for *_, outcome, message in checks if outcome == "skipped")
    assert message.startswith("--via export: ")
    assert len(message) > len("--via export: ")


def test_known_failures_of_a_backend(suite: Suite):
    suite.write("conftest.py", 'import sys\nsys.path.insert(0, ".")\npytest_plugins = ["conformance.plugin"]\n')
    suite.write("mine.py", BACKEND)
    suite.write("ops/test_scale.py", LIMITED)
    entry = f"""
[[failure]]
case = "scale/plain"
check = "numerics"
target = "{NATIVE}"
backend = ["mine:wrong", "mine:plain"]
torch = ">=2.11"
{WRONG_OUTPUT}
reason = "one too many"
issue = "not reported"
"""
    suite.write("known_failures/scale.toml", entry)
    about = ("--target", NATIVE, "--checks", "numerics", "-k", "plain")
    ran, checks = suite.checks(*about, "--backend", "mine:wrong")
    ran.ends(0)
    assert "one too many (not reported)" in [message for *_, message in checks]
    suite.run(*about, "--backend", "mine:plain").ends(STALE_STATUS).has(
        "passes numerics on torch", "the entry says that it fails"
    )
    suite.run(*about, "--backend", "eager").ends(0).has_not("says that it fails", "matched nothing")
    suite.write("known_failures/scale.toml", entry.replace('backend = ["mine:wrong", "mine:plain"]\n', ""))
    suite.run(*about, "--backend", "mine:wrong").ends(1).has("compiled disagrees")
