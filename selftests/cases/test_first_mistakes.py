"""Mistakes of somebody who writes a first case: one sentence says what is wrong and what would be right."""

from __future__ import annotations

import warnings

import pytest
import torch
from checking import case_of
from suites import SM90
from suites import PreloadedSuite as Suite

from conformance import case, image, module, tensor
from conformance.capture.observers.kernels import observing
from conformance.cases.axes import CaseError
from conformance.cases.named_devices import own_devices
from conformance.cases.nested.modules import ModuleInput
from conformance.cases.outside_tensors import advice
from conformance.harness.foreign_warnings import no_errors
from conformance.numerics.check import check_numerics
from conformance.numerics.comparison import NumericsError


def message_of(function=lambda x: x, /, **keywords):
    if function.__name__ == "<lambda>":
        function.__name__ = function.__qualname__ = "test_it"
    with pytest.raises(CaseError) as caught:
        case(**keywords)(function)
    return str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (tensor((7, 33)), "x.shape is ((7, 33),): the sizes need no brackets of their own: write tensor(7, 33)"),
        (tensor([7, 33]), "write tensor(7, 33)"),
        (tensor(torch.Size([7, 33])), "write tensor(7, 33)"),
        (tensor(()), "write tensor(shape=())"),
        (tensor((7, -1)), "-1 is no size"),
        (tensor((20,), (7, 33)), "for one case each tensor(shape=[(20,), (7, 33)])"),
        (tensor(20, dtype=("f32", "bf16")), "a tuple is one value: for one case each, write ['f32', 'bf16']"),
        (image((3, 9, 9)), "x.channels is (3, 9, 9): it must be a whole number from 0 on, and one: image(3, size=224)"),
        (image(3, size=(9, 9)), "x.size is (9, 9): it must be a whole number from 0 on, and one: image(3, size=224)"),
    ],
)
def test_sizes_in_brackets(recipe, message):
    assert message in message_of(x=recipe)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (module(torch.nn.Linear), "x.factory is Linear: missing a required argument: 'in_features'; it takes in_feat"),
        (module(torch.nn.Linear), ", dtype: write module(Linear, in_features=…, out_features=…)"),
        (module(torch.nn.Linear, *range(9)), "too many positional arguments"),
        (module(torch.nn.Linear, 3, 5, biass=False), "got an unexpected keyword argument 'biass'"),
        (module({"a": torch.nn.Identity, "b": lambda size: size}), "write module(lambda, size=…)"),
    ],
)
def test_a_module_that_cannot_be_made_is_refused_when_it_is_declared(recipe, message):
    assert message in message_of(x=recipe)


def test_a_module_is_not_made_when_it_is_declared(monkeypatch):
    monkeypatch.setattr(ModuleInput, "make", lambda *_: pytest.fail("made"))
    function = lambda x: x  # noqa: E731
    function.__name__ = function.__qualname__ = "test_it"
    assert case(x=module(torch.nn.Linear, 3, out_features=[5, 7], bias=None))(function).cases
    assert case(x=module(type, 3))(function).cases  # it has no signature


def test_a_module_whose_signature_says_nothing_is_refused_when_it_is_made():
    with pytest.raises(CaseError, match=r"cannot make LSTM: TypeError: .* missing 2 .* \(raised in .*rnn\.py:"):
        module(torch.nn.LSTM).make({"factory": torch.nn.LSTM})


def test_no_brackets_and_no_names():
    with pytest.raises(CaseError, match=r"test_sum: @case needs brackets .*: write @case\(x=tensor\(20\), y=tensor"):

        @case
        def test_sum(x, y):
            return x + y

    with pytest.raises(CaseError, match=r"by the names of parameters: write @case\(x=tensor"):
        case(tensor(20))


def test_what_pytest_knows_and_a_case_does_not():
    class TestAll:
        def test_it(self, x):
            return x

    @pytest.mark.parametrize(("n", "m"), [(1, 2)])
    def test_marked(x, n, m):
        return x * n * m

    assert message_of(TestAll.test_it, x=tensor(20)) == (
        "test_it: cases are functions only: write it outside of the class TestAll, without self"
    )
    assert "a list is an axis, write @case(n=[1, 2])" in message_of(test_marked, x=tensor(20), n=1, m=2)
    assert "or n=[1, 2] for an axis, in place of parametrize" in message_of(lambda x, n: x * n, x=tensor(20))
    assert "the argument 'tmp_path', and a case takes no fixtures: make" in message_of(
        lambda x, tmp_path: x + tmp_path, x=tensor(20)
    )


@pytest.fixture
def sizes():
    return [1]


def test_a_fixture_of_the_file():
    assert "the argument 'sizes', and a case takes no fixtures" in message_of(lambda x, sizes: x + sizes, x=tensor(20))


@pytest.mark.parametrize("name", ["require", "missed", "numerics", "only", "compared_as"])
def test_keywords_that_are_dicts(name):
    message = message_of(x=tensor(20), **{name: ["gpu"]})
    assert message.startswith(f"test_it: {name} is ['gpu']: it must be a dict; ")


HEAD = """
import pytest
from conformance import case, tensor

"""
WRONG = (
    HEAD
    + """
@case(x=tensor(20), require={"kernels": 1, "all": {"fallbacks": []}})
def test_one(x): return x * 2

@case(x=tensor(20), missed={"kernels": 1})
def test_two(x): return x * 2

@case(x=tensor(20), numerics={"cpu": {}, "for": {"factor": 2, "cpu": {"exact": False}}})
def test_three(x): return x * 2
"""
)
ELSEWHERE = (
    HEAD
    + """
@case(x=tensor(20), only={"xpu": "it is elsewhere"})
def test_right(x): return x * 2
"""
)
MARKED = (
    HEAD
    + """
@pytest.mark.parametrize("n", [1, 2])
@case(x=tensor(20), n=1)
def test_marked(x, n): return x * n
"""
)


def test_keywords_without_selectors_are_told_in_their_own_file(tmp_path):
    suite = Suite(tmp_path)
    suite.write("test_wrong.py", WRONG)
    suite.write("test_elsewhere.py", ELSEWHERE)
    ran, found = suite.checks(*SM90, "-k", "right or two")
    cpu = {"cpu": {}}
    assert ran.lines("test_wrong.py:") == [
        "test_wrong.py:6: test_one: require={'kernels': 1} has no selector: write require={'all': {'kernels': 1}}",
        "test_wrong.py:9: test_two: missed={'kernels': 1} has no selector: write missed={'all': {'kernels': 1}}",
        "test_wrong.py:12: test_three: numerics={'for': {'factor': 2}} has no selector: write numerics={'factor': 2}",
        f"test_wrong.py:12: test_three: numerics={cpu} has selectors without 'for': write numerics={{'for': {cpu}}}",
    ]
    assert sorted(outcome for *_, outcome, _ in found) == ["failure", "skipped"]
    ran.ends(1).has_not("known_failures", "minimise", "Traceback")


def test_a_mark_above_a_case(tmp_path):
    suite = Suite(tmp_path)
    suite.write("test_marked.py", MARKED)
    suite.run(*SM90).ends(2).has("test_marked.py:6: test_marked: a case is not parametrised", "write @case(n=[1, 2])")


MISMATCH = RuntimeError("Expected all tensors to be on the same device, but found at least two devices")


def makes_a_tensor(y):
    return y * torch.linspace(0, 1, 33)


class Net(torch.nn.Module):
    def forward(self, y):
        return torch.nn.functional.relu(y) * torch.eye(3)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (makes_a_tensor, "torch.linspace(0, 1, 33)"),
        (lambda y: makes_a_tensor(y) + 1, "torch.linspace(0, 1, 33)"),
        (Net().forward, ""),
    ],
)
def test_a_tensor_that_the_function_makes(function, call):
    said = advice(function, {"n": 3, "y": torch.ones(33)}, MISMATCH)
    assert said.endswith(f": {call}: the result is not on the device of y: write device=y.device") if call else not said
    assert not advice(function, {"y": torch.ones(33)}, RuntimeError("of another kind, on this device"))


def test_a_tensor_that_a_module_makes():
    said = advice(lambda net, y: net(y), {"net": torch.nn.Sequential(Net()), "y": torch.ones(3)}, MISMATCH)
    assert "torch.eye(3): the result is not on the device of y: " in said


def test_calls_that_name_a_device_come_first():
    def named(x):
        return torch.ones(3) + torch.zeros(3, device="cuda") + x.to("cpu:0") + torch.ones(3, device=x.device)

    assert [call.partition(": ")[2] for call in own_devices(named)] == [
        "x.to('cpu:0')",
        "torch.zeros(3, device='cuda')",
    ]
    assert not own_devices(torch.sin)  # it has no source


DEVICES = (
    HEAD
    + """
import torch

@case(x=tensor(20))
def test_made(x): return x * torch.linspace(0, 1, 20)

@case(x=tensor(20))
def test_named(x): return x * torch.linspace(0, 1, 20, device="cuda")
"""
)


@pytest.mark.long("compiles for a pretended device, and calls it emulated")
def test_a_device_of_its_own(tmp_path):
    suite = Suite(tmp_path)
    suite.write("test_devices.py", DEVICES)
    ran = (
        suite.run(*SM90).ends(1).has("mismatch\ntest_devices.py:9: torch.linspace(0, 1, 20): the result is not on the")
    )
    ran.has("two devices, cpu and cuda:0!\ntest_devices.py:12: torch.linspace(0, 1, 20, device='cuda'): the result is")
    ran.has_not("known_failures", "minimise", "'reference'")


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def test_a_branch_on_data_is_named():
    torch._dynamo.reset()
    compiled = torch.compile(branches, backend="eager")
    with observing(), pytest.raises(NumericsError) as caught:
        check_numerics(case_of(branches, x=tensor(20)), compiled, "cpu")
    assert "\n`if x.sum() > 0:` branches on data, and Dynamo compiles a way when a call " in str(caught.value)
    assert "if compiled is right" not in str(caught.value)


def test_what_torch_says_of_its_own_import_is_not_shown():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with no_errors():
            warnings.warn("`torch.jit.script_method` is deprecated. Please switch", DeprecationWarning, stacklevel=1)
            warnings.warn("`torch.jit.script` is deprecated: a call of the user's", DeprecationWarning, stacklevel=1)
    assert [str(each.message)[:18] for each in shown] == ["`torch.jit.script`"]
