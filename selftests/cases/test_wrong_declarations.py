"""Declarations with a wrong value: one sentence that names the place, what is wrong, and what would be right."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from conformance import case, every_value, group, image, module, tensor
from conformance.capture.compiler_options import OptionError, refuse_wrong_options
from conformance.cases import option_names
from conformance.cases.axes import CaseError
from conformance.cases.case import Case
from conformance.devices.environment import torch_build


class Net(torch.nn.Module):
    def __init__(self, *_sizes):
        super().__init__()


def declared(**keywords):
    def test_it(x):
        return x

    return case(**keywords)(test_it)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"x": tensor(20, dtype=["f33"])}, "test_it: x.dtype is 'f33': it must be one of f64, .*; did you mean 'f32'"),
        ({"x": tensor(20), "dtype": ["f32", "flot32"]}, "x.dtype is 'flot32': .*; did you mean 'f32'"),
        ({"x": tensor(20, dtype="float32")}, "x.dtype is 'float32': write 'f32'"),
        ({"x": tensor(20, dtype=torch.bfloat16)}, "x.dtype is torch.bfloat16: write 'bf16'"),
        ({"x": group([tensor(3)], dtype="half")}, r"x\[0\].dtype is 'half': write 'f16'"),
        ({"x": image(3, dtype="uint8")}, "x.dtype is 'uint8': write 'u8'"),
        ({"x": every_value("f32")}, "x.dtype is 'f32': it must be one of f16, bf16, i16, i8, u8, bool"),
        ({"x": module(Net, dtype="f61")}, "x.dtype is 'f61': it must be one of"),
        ({"x": module(Net, training="no")}, "x.training is 'no': it must be True or False"),
        ({"x": image(3, layout=["channel_last"])}, "x.layout is 'channel_last': .*; did you mean 'channels_last'"),
        ({"x": tensor(20, layout="channels_last")}, "'channels_last' needs 4 or 5 dimensions, and the shape is"),
        ({"x": tensor(20, layout="transposed")}, "'transposed' needs 2 dimensions or more, and the shape is"),
        ({"x": tensor(shape=(), dtype="f32", layout="strided")}, "'strided' needs 1 dimension or more"),
        ({"x": tensor()}, r"x.shape is None: it is not set: write tensor\(20\)"),
        ({"x": tensor(shape=[20, 30])}, r"x.shape is 20: it must be a tuple of sizes: write \(20,\)"),
        ({"x": tensor(-1)}, "-1 is no size"),
        ({"x": tensor(20, "f32")}, r"'f32' is no size: .*; the dtype and the layout are keywords: tensor\(20, dtype="),
        ({"x": tensor(20, low="0")}, "x.low is '0': it must be a number"),
        ({"x": tensor(20, zeros=(1,))}, r"x.zeros is \(1,\): it must be a number"),
        ({"x": image(3, size="224")}, "x.size is '224': it must be a whole number"),
        ({"x": tensor(20), "grad": ("x",)}, "grad is .*: it must be True, False, or names of inputs in one text"),
        ({"x": tensor(20), "grad": 1}, "grad is 1: it must be True"),
        ({"x": tensor(20), "dynamic": "yes"}, "dynamic is 'yes': it must be True or False"),
        ({"x": tensor(20), "config": "max_autotune"}, "config is 'max_autotune': it must be a dict of option"),
    ],
)
def test_a_wrong_value_is_refused_when_it_is_declared(keywords, message):
    with pytest.raises(CaseError, match=message):
        declared(**keywords)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.randn(3), "x is a tensor that exists already: .*; let the case make it: x=tensor(3); if the values"),
        (torch.arange(5, 9), "let the case make it: x=tensor(4, dtype='i64', low=5, high=9);"),
        (torch.tensor(1.0, dtype=torch.float16), "let the case make it: x=tensor(shape=(), dtype='f16');"),
        (torch.nn.Parameter(torch.ones(2, 3)), "x=tensor(2, 3);"),
        ([torch.ones(2), torch.ones(3)], "x[0] is a tensor that exists already: "),
        (group([tensor(2), torch.ones(2, dtype=torch.bool)]), "let the case make it: tensor(2, dtype='bool');"),
        ({"a": module(Net), "b": module(Net, 3)}, "write x=module({'a': Net, 'b': lambda: Net(3)})"),
        ([module(Net), module(Net, 3)], "'x' is a list of modules; for one case each, write x=module({'net': Net, "),
        ([tensor(2), tensor(3)], "'x' is a list of inputs; write it as x=group(…)"),
    ],
)
def test_a_value_that_is_no_input_comes_with_what_to_write(value, message):
    with pytest.raises(CaseError) as caught:
        declared(x=value)
    for part in message.split(".*"):
        assert part in str(caught.value)


def test_right_values_stay_right():
    declared(x=tensor(shape=[(20,), [4, 5], ()], dtype=["f64", "c128"]), grad=[True, False, "x"], config={})
    declared(x=tensor(1, 2, 3, 4, 5, layout="channels_last"), dynamic=None, grad=None)
    declared(x=module({"a": Net, "b": Net}, dtype=[None, "f64"], training=[None, True]))
    declared(x=every_value(["f16", "u8"]))


def with_config(config, **change):
    plain = Case("op", "it", (), lambda: None, Path("test_op.py"), {}, config=config)
    return dataclasses.replace(plain, **change)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("max_autotun", "max_autotune"),
        ("cudagraphs", "triton.cudagraphs"),
        ("simdlen", "cpp.simdlen"),
        ("dynamo.capture_scalar_output", "dynamo.capture_scalar_outputs"),
        ("capture_scalar_outputs", "dynamo.capture_scalar_outputs"),
    ],
)
def test_an_unknown_option_has_the_nearest_names(name, nearest):
    with pytest.raises(
        CaseError, match=rf"test_op\.py: test_it: config\['{name}'\]: .* no such option; nearest: {nearest}"
    ):
        option_names.validate([with_config({name: True})])
    with pytest.raises(OptionError, match=f"torch has no option '{name}'"):
        refuse_wrong_options({name: True})


def test_options_of_another_torch_and_those_that_the_suite_sets():
    option_names.validate([with_config({"no_such": 1}, only={"cuda torch>=99": "new", "torch<1": "old"})])
    with pytest.raises(CaseError, match="no such option"):
        option_names.validate([with_config({"no_such": 1}, only={"cuda": "Triton", "torch<1": "old"})])
    with pytest.raises(CaseError, match="the suite sets fx_graph_cache itself, because"):
        option_names.validate([with_config({"fx_graph_cache": True})])


def test_the_names_in_the_sources_are_those_of_torch():
    from torch._dynamo import config as dynamo_config

    names = option_names.option_names(torch_build().folder)
    assert set(torch._inductor.list_options()) - names == {"TYPE_CHECKING"}
    assert {f"dynamo.{name}" for name in dynamo_config._config} - names == {"dynamo.TYPE_CHECKING"}
    assert len(names) < 1000
    assert option_names.option_names(Path("/no/torch")) == frozenset()


def test_a_value_of_another_type_is_refused_by_the_capture():
    with pytest.raises(
        OptionError, match=r"config\['max_autotune'\]: max_autotune takes True or False, and 'yes' is text"
    ):
        refuse_wrong_options({"max_autotune": "yes"})
