"""Other inputs: the variants of a case that numerics compile too."""

import torch
from checking import case_of

from conformance import every_value, module, tensor
from conformance.cases.other_inputs import KINDS, are_compiled, is_name, variant, variants
from conformance.cases.roots import OPS


def names(a_case, kind):
    return [each.name for each in variants(a_case, kind)]


def product(a, b, scale=1.0):
    return a @ b * scale


def test_one_input_is_transposed_and_then_all_others():
    def three(x, y, z):
        return x + y + z

    case = case_of(three, x=tensor(5, 7), y=tensor(5, 7), z=tensor(5, 7))
    assert names(case, "transposed") == ["x transposed", "y, z transposed"]
    made = variant(case, "y, z transposed").case.build()
    assert [made[name].stride() for name in "xyz"] == [(7, 1), (1, 5), (1, 5)]


def test_what_has_one_layout_is_not_transposed():
    def many(x, row, layout, every):
        return x, row, layout, every

    rest = {"layout": tensor(5, 7, layout="transposed"), "every": every_value("i8")}
    case = case_of(many, x=tensor(5, 1), row=tensor(7), **rest)
    assert names(case, "transposed") == []


def test_a_static_case_is_compiled_for_any_size():
    case = case_of(product, a=tensor(5, 6), b=tensor(6, 7), scale=2.0)
    [found] = variants(case, "dynamic")
    assert found.case.dynamic
    assert variant(case, found.name).name == found.name
    of_one = case_of(product, a=tensor(1, 1), b=tensor(1, 1), scale=2.0)
    assert names(found.case, "dynamic") == names(of_one, "dynamic") == []


def test_a_size_changes_in_each_input_that_has_it():
    case = case_of(product, a=tensor(5, 6), b=tensor(6, 7), scale=2.0)
    assert names(case, "size 0") == ["size 5 → 0", "size 7 → 0", "size 6 → 0"]
    made = variant(case, "size 6 → 1").case.build()
    assert (made["a"].shape, made["b"].shape) == ((5, 1), (1, 7))


def test_one_size_one_dtype_or_one_constant_differs_alone():
    case = case_of(product, a=tensor(5, 6), b=tensor(6, 7), scale=2.0)
    dtypes = ["a: f32 → f64", "b: f32 → f64"]
    constants = ["scale: 2.0 → 0.0", "scale: 2.0 → -1.0"]
    assert names(case, "refused") == ["a: (5, 6) → (5, 1)", "b: (6, 7) → (1, 7)", *dtypes, *constants]
    assert variant(case, "b: f32 → f64").case.build()["b"].dtype == torch.float64
    assert variant(case, "scale: 2.0 → 0.0").case.build()["scale"] == 0.0


def test_a_number_in_the_function_differs():
    def half(x):
        return x * 0.5

    case = case_of(half, x=tensor(5))
    assert names(case, "refused") == ["constant: 0.5 → 0.0", "constant: 0.5 → -1.0"]
    assert torch.equal(variant(case, "constant: 0.5 → -1.0").case.fn(torch.ones(2)), -torch.ones(2))
    assert torch.equal(case.fn(torch.ones(2)), torch.full((2,), 0.5)), "the case's own function stays"


def test_a_module_keeps_its_sizes():
    def call(net, x):
        return net(x)

    case = case_of(call, net=module(lambda: torch.nn.Linear(6, 7)), x=tensor(5, 6))
    assert names(case, "transposed") == ["x transposed"]
    assert names(case, "size 1") == ["size 5 → 1", "size 6 → 1"]


def test_names_are_those_of_known_failures():
    case = case_of(product, a=tensor(5, 6), b=tensor(6, 7), scale=2.0)
    assert all(is_name(name) for kind in KINDS for name in names(case, kind))
    assert not any(map(is_name, ("first", "nan", "size 5", "transposed")))
    assert variant(case, "c transposed") is None


def test_cases_of_the_suite_declare_their_inputs_themselves():
    import dataclasses

    case = case_of(product, a=tensor(5, 6), b=tensor(6, 7), scale=2.0)
    assert are_compiled(case)
    assert not are_compiled(dataclasses.replace(case, file=OPS / "test_flip.py"))
