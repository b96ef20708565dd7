"""Requirements: selectors, wanted values, partners, and declarations that are refused."""

from dataclasses import replace

import pytest

from conformance import case, tensor
from conformance.cases.bit_variants import DIFFER, MAY_DIFFER, SAME, UNDEFINED
from conformance.cases.selectors import DeclarationError
from conformance.compiler.same_bits import Verdict
from conformance.devices.targets import targets
from conformance.expectations.requirements import RequirementError, check, validate, wanted_facts

CPU, CUDA = targets()["cpu_avx2"], targets()["cuda_sm90"]


class Values(dict):
    """`there`: what `instead` and `text` say of each fact."""

    there = ""

    def value(self, name):
        if name not in self:
            raise LookupError(f"no fact {name!r}: known are {', '.join(self)}")
        return self[name]

    def instead(self, _name):
        return self.there

    def text(self, _name):
        return self.there


def cases_of(require, name="test_add"):
    def fn(x):
        return x + 1

    fn.__name__ = name
    return case(x=tensor(20, dtype=["f32", "u8"]), require=require)(fn).cases


def met(wanted, got):
    f32 = cases_of({"all": {"fact": wanted}})[0]
    try:
        check(f32, CPU, Values(fact=got))
    except RequirementError:
        return False
    return True


@pytest.mark.parametrize(
    ("wanted", "got", "expected"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, True, False),
        (False, 0, False),
        ("<=2", 2, True),
        ("<=2", 3, False),
        (">=2", 2, True),
        (">=2", 1, False),
        ("> 0", 0, False),
        ("<3", 2, True),
        ("yes", "yes", True),
        ("no", "no: load index is not contiguous", True),
        ("yes", "no: load index is not contiguous", False),
        ("no", "none", False),
        ([], [], True),
        ([], ["aten.flip"], False),
        (["mm", "mm"], ["mm"], False),
        (("mm",), ["mm"], True),
        ("mm", ["mm"], False),
    ],
)
def test_what_may_be_wanted(wanted, got, expected):
    assert met(wanted, got) is expected


def test_a_bound_on_what_is_no_number_is_a_mistake():
    with pytest.raises(DeclarationError, match="'>=1' can only be wanted of a number, and the fact is 'yes'"):
        met(">=1", "yes")


def test_later_selectors_override_earlier_ones_fact_by_fact():
    f32, u8 = cases_of(
        {
            "all": {"kernels": 1, "fallbacks": []},
            "gpu": {"kernels": 2},
            "gpu u8": {"kernels": 3},
            "cuda_sm90 f32": {"fallbacks": ["x"]},
            "cpu": {"vectorised": "yes"},
        }
    )
    assert wanted_facts(f32, CPU) == {"kernels": 1, "fallbacks": [], "vectorised": "yes"}
    assert wanted_facts(f32, CUDA) == {"kernels": 2, "fallbacks": ["x"]}
    assert wanted_facts(u8, CUDA) == {"kernels": 3, "fallbacks": []}


def test_the_message_says_all_that_is_not_met():
    f32 = cases_of({"all": {"kernels": 1, "vectorised": "yes", "fallbacks": []}})[0]
    with pytest.raises(RequirementError) as caught:
        check(f32, CPU, Values(kernels=2, vectorised="no", fallbacks=[]))
    assert str(caught.value) == (
        "requirements/add-f32 on cpu_avx2: kernels: wanted 1, got 2 (also vectorised); 2 of 3 requirements not met\n"
        "  kernels: wanted 1, got 2\n"
        "  vectorised: wanted 'yes', got 'no'\n"
        "fix the cause, or edit `require` of test_add in test_requirements.py, at 'all': "
        "`python -m conformance docs public-names#keywords-of-case`; accepting snapshots never changes a requirement"
    )


def test_a_graph_break_has_to_be_declared():
    """Also where nothing else is required, and not by a sample of the sweep."""
    broken = Values(kernels=1, graph_breaks=2)
    (f32, *_) = cases_of({})
    with pytest.raises(RequirementError, match="on cpu_avx2: graph_breaks: wanted 0, got 2") as caught:
        check(f32, CPU, broken)
    assert str(caught.value).splitlines()[-1] == (
        "what is between the parts runs in eager, and is compared with itself: remove what breaks the graph, or "
        "declare require={'all': {'graph_breaks': 2}} in test_add of test_requirements.py"
    )
    for declared in ({"all": {"graph_breaks": 2}}, {"gpu": {"graph_breaks": "<=9"}}):
        check(cases_of(declared)[0], CPU, broken)
    sample = replace(f32, operator="opinfo", name="abs", labels=("f32", "forward", "sample0"))
    check(sample, CPU, broken)
    check(f32, CPU, Values(code="none"))


def test_the_first_line_names_a_cause_before_its_effects():
    wanted = {"kernels": 1, "fallbacks": [], "operators.aten.mm": 1, "graph_breaks": 0}
    got = {"kernels": 2, "fallbacks": ["aten.sort"], "operators.aten.mm": 0, "graph_breaks": 1}
    order = ["graph_breaks", "operators.aten.mm", "fallbacks", "kernels"]
    for place, fact in enumerate(order):
        f32 = cases_of({"all": {name: wanted[name] for name in wanted if name in order[place:]}})[0]
        with pytest.raises(RequirementError) as caught:
            check(f32, CPU, Values({name: got[name] for name in order[place:]}))
        assert f" on cpu_avx2: {fact}: wanted {wanted[fact]!r}, got {got[fact]!r}" in str(caught.value).split("\n")[0]


def test_the_message_says_what_is_there_instead():
    f32 = cases_of({"all": {"kernels": 1}})[0]
    values = Values(kernels=2)
    values.there = "1: add; 2: mul"
    with pytest.raises(RequirementError) as caught:
        check(f32, CPU, values)
    first, line, *there, _ = str(caught.value).split("\n")
    assert first.endswith(": kernels: wanted 1, got 2: 1: add; 2: mul; 1 of 1 requirements not met")
    assert line == "  kernels: wanted 1, got 2"
    assert there == ["the code has:", "    kernels  1: add; 2: mul"]


def test_a_long_value_is_shortened_in_the_first_line_alone():
    f32 = cases_of({"all": {"fallbacks": []}})[0]
    with pytest.raises(RequirementError) as caught:
        check(f32, CPU, Values(fallbacks=["aten.sort"] * 100))
    first, line, *_ = str(caught.value).split("\n")
    assert len(first) < 300 < len(line)


def test_what_is_met_is_returned():
    f32 = cases_of({"all": {"kernels": 1}})[0]
    assert check(f32, CPU, Values(kernels=1)) == ["kernels: wanted 1, got 1"]


@pytest.mark.parametrize(("fact", "other_code", "expected"), [
    ("same_code_as", "a", True),
    ("same_code_as", "b", False),
    ("different_code_from", "a", False),
    ("different_code_from", "b", True),
])  # fmt: skip
def test_partners(fact, other_code, expected):
    f32 = cases_of({"all": {fact: "test_other"}})[0]
    asked = []

    def code_of(name):
        asked.append(name)
        return other_code

    if expected:
        check(f32, CPU, Values(), code="a", code_of=code_of)
    else:
        with pytest.raises(RequirementError, match=f"{fact}: wanted .* other, got "):
            check(f32, CPU, Values(), code="a", code_of=code_of)
    assert asked == ["other"]
    with pytest.raises(DeclarationError, match="pass code_of"):
        check(f32, CPU, Values(), code="a")


def test_an_unknown_fact_is_no_failure_of_the_compiler():
    f32 = cases_of({"all": {"kernel": 1}})[0]
    with pytest.raises(DeclarationError, match=r"requires 'kernel': no fact 'kernel': known are kernels"):
        check(f32, CPU, Values(kernels=1))


@pytest.mark.parametrize(
    ("require", "text"),
    [
        ({"gpu f16": {"kernels": 1}}, "'f16' is no target, no device and no label of these cases; known are all"),
        ({"all f32": {"kernels": 1}}, "a selector is 'all', or words that must all apply"),
        ({"": {"kernels": 1}}, "a selector is 'all', or words that must all apply"),
        ({"kernels": 1}, "{'kernels': 1} has no selector: write require={'all': {'kernels': 1}}"),
        ({"all": {"kernel": 1}}, "no fact 'kernel': known are kernels"),
        ({"all": {"same_code_as": "nothing"}}, "names 'nothing'; the functions of the file are add, narrow, other"),
        ({"u8": {"same_code_as": "narrow"}}, "has no case with the labels u8"),
    ],
)
def test_declarations_that_are_refused(require, text):
    def narrow(x):
        return x

    narrow.__name__ = "test_narrow"
    others = [*cases_of({}, "test_other"), *case(x=tensor(20, dtype=["f32"]))(narrow).cases]
    with pytest.raises(DeclarationError, match=r"test_requirements\.py: test_add: require") as caught:
        validate([*cases_of(require), *others], targets().values(), ["kernels"])
    assert text in str(caught.value)


def test_declarations_that_are_right():
    require = {
        "all": {"kernels": 1, "kernels.backward": 1, "same_code_as": "other"},
        "gpu f32": {"kernels": "<=2"},
        "cpu_neon u8": {"different_code_from": "test_other"},
    }
    validate([*cases_of(require), *cases_of({}, "test_other")], targets().values(), ["kernels"])


def test_bits_that_are_required():
    one = cases_of({"all": {"same_bits": ["batch", "run"]}})[0]
    right, with_mode = Verdict("run", SAME, "native"), Verdict("batch", DIFFER, "native", mode="batch_invariant=True")
    asked = []

    def verdicts(*found):
        return lambda kinds: asked.append(kinds) or found

    assert check(one, CPU, Values(), bits_of=verdicts(right, with_mode)) == [
        "same_bits: wanted batch, run, got the same"
    ]
    assert asked == [["batch", "run"]]
    wrong = Verdict("batch", MAY_DIFFER, "structure", "1 of 8 rows", reason="kernel 1: a split → none")
    with pytest.raises(RequirementError) as caught:
        check(one, CPU, Values(), bits_of=verdicts(right, wrong))
    assert "got batch may differ (structure): 1 of 8 rows kernel 1: a split → none; 1 of 1" in str(caught.value)
    with pytest.raises(RequirementError, match="batch not defined: a row depends on other rows"):
        check(one, CPU, Values(), bits_of=verdicts(Verdict("batch", UNDEFINED, text="a row depends on other rows")))
    with pytest.raises(DeclarationError, match="pass bits_of"):
        check(one, CPU, Values())


@pytest.mark.parametrize("value", ["batch", [], ["rows"], ["run", 1], None])
def test_bits_that_cannot_be_required(value):
    names = "run, batch, layout, configuration, eager"
    with pytest.raises(DeclarationError, match=f"write a list of some of these: {names}"):
        validate(cases_of({"all": {"same_bits": value}}), targets().values(), ["kernels"])
