"""Why a loop nest is not vectorised: the reason names the rule by which TilingSelect returned."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap

import pytest
from capturing import captured, facts_of

from conformance.capture.observers import vectorisation
from conformance.cases.inputs import image, tensor
from conformance.facts import extract


@pytest.fixture
def rules(monkeypatch) -> list[str]:
    """A list that gets, for each call of select_tiling, the condition around its return. It traces the lines."""
    from torch._inductor.codegen import cpp

    original = cpp.TilingSelect.select_tiling
    found: list[str] = []

    def select_tiling(self, *args):
        lines = []

        def within(frame, event, _):
            if event == "line":
                lines.append(frame.f_lineno)
            return within

        before = sys.gettrace()
        sys.settrace(lambda frame, *_: within if frame.f_code is original.__code__ else None)
        try:
            return original(self, *args)
        finally:
            sys.settrace(before)
            found.append(condition(original, lines[-1]))

    monkeypatch.setattr(cpp.TilingSelect, "select_tiling", select_tiling)
    return found


def condition(function, line: int) -> str:
    """The test of the innermost `if` around the return statement in `line`."""
    source, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(source)))
    assert any(isinstance(each, ast.Return) and each.lineno + first - 1 == line for each in ast.walk(tree))
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.If) and each.body[0].lineno <= line - first + 1 <= each.body[-1].end_lineno
    ]
    return ast.unparse(min(around, key=lambda each: each.end_lineno - each.lineno).test) if around else ""


#: A word of the rule's condition → what the reason says.
SAYS = {
    "VECTORIZABLE_DTYPES": r"^no: dtype \w+ has no vectors$",
    "quantity_threshold": r"^no: \w+ index .* is not contiguous in x\d( \(stride -?\d+\))?, \d+ of \d+ operations$",
    "tiling_factor / 4": r"^no: range \d+ of x\d is shorter than a quarter of a vector, \d+ operations$",
    "len(tiling_indices) == 1": r"^yes: \d+ lanes along x\d",
    "len(tiling_indices) == 2": r"^yes: 2-D tile of ",
}

FUNCTIONS = {
    "dtype": (lambda x: x + 1, tensor(64, dtype="i16")),
    "dtypes": (lambda x: x.double() + 1, tensor(64, dtype="i16")),
    "flipped": (lambda x: x.flip(-1), image(dtype="u8")),
    "stride 2": (lambda x: x[:, ::2] * 2, tensor(64, 100)),
    "no stride": (lambda x: x.roll(3, 1), tensor(64, 100)),
    "window": (lambda x: x.unfold(1, 3, 3).amax(-1), tensor(8, 99)),
    "short": (lambda x: x.flip(-1), image(layout="channels_last")),
    "contiguous": (lambda x: x + 1, tensor(64, 100)),
    "transposed": (lambda x: x.t().contiguous() + 1, tensor(64, 100)),
    "sum": (lambda x: x.sum(1), tensor(64, 100, dtype="i64")),
    "argmax": (lambda x: x.argmax(1), tensor(64, 100)),
    "variance": (lambda x: x.var(0), tensor(64, 100, dtype="f64")),
    "masked": (lambda x: x.tril(), tensor(64, 100, dtype="bf16")),
    "indirect": (lambda x: x[x[:, 0].long() % 64] + 1, tensor(64, 100)),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, "cpu_avx512") for name in FUNCTIONS),
        ("dtype", "cpu_avx2"),
        ("flipped", "cpu_avx2"),
        ("short", "cpu_neon"),
    ],
)
def test_the_reason_is_the_rule_that_inductor_left_by(name, target, rules):
    function, x = FUNCTIONS[name]
    capture = captured(function, target, x=x)
    nests = [nest for call in capture.modules[0].observed["calls"] for nest in call.get("nests", [])]
    texts = [text.split(": ", 1)[-1] if ": yes: " in text or ": no: " in text else text for text in lines(capture)]
    assert len(rules) >= len(nests) > 0, "a nest without a decision"
    assert vectorisation.UNKNOWN not in "\n".join(texts)
    for rule in set(rules):
        says = [reason for word, reason in SAYS.items() if word in rule]
        assert says, f"a rule of TilingSelect that has no reason: {rule}"
        assert any(re.search(says[0], text) for text in texts), (rule, texts)


def lines(capture) -> list[str]:
    return [line.strip() for line in extract(capture).lines()["vectorised"].split("\n")]


def test_the_flip_of_a_uint8_image_answers_in_one_line():
    assert facts_of(lambda x: x.flip(-1), x=image(dtype="u8")).lines()["vectorised"] == (
        "no: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2 operations"
    )


def test_what_is_never_asked(rules):
    assert facts_of(lambda x: x + 1, x=tensor(1)).lines()["vectorised"] == "none: no loop"
    text = facts_of(lambda x: x + 1, config={"cpp.simdlen": 1}, x=tensor(64)).lines()["vectorised"]
    assert (text, rules) == ("no: no vector instruction set", [])


def test_without_the_rule_the_reason_goes(monkeypatch):
    """The reason is Inductor's: this suite knows neither the dtypes with vectors nor the limit of accesses."""
    import torch
    from torch._inductor.codegen import cpp

    flip, x = FUNCTIONS["flipped"]
    without = facts_of(flip, config={"cpp.enable_tiling_heuristics": False}, x=x).lines()["vectorised"]
    assert without.startswith("yes: 16 lanes along x1")
    assert "load index 224*x0 - x1 + 223 element by element (stride -1), 1 of 2 operations" in without
    monkeypatch.setattr(cpp, "VECTORIZABLE_DTYPES", [*cpp.VECTORIZABLE_DTYPES, torch.int16])
    monkeypatch.setattr(cpp.CppVecKernel, "_get_num_vectors", lambda *_: 1)
    assert "has no vectors" not in facts_of(lambda x: x.clone(), x=tensor(64, dtype="i16")).lines()["vectorised"]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x + 1, ""),
        (lambda x: special().bessel_j0(x) + 1, "bessel_j0 element by element (no vector code)"),
        (lambda x: x.frexp()[0] + 1, "frexp element by element (no vector code)"),
        (lambda x: x[x[:, 0].long() % 64] + 1, ""),
        (lambda x: x[:, x[0].long() % 100] + 1, "load index indirect0 + 100*x0 element by element (computed index)"),
        (lambda x: x.t().contiguous() * x.t()[0], "element by element (stride 100)"),
        (lambda x: x.index_add(0, x[:, 0].long() % 64, x), "store element by element (atomic)"),
    ],
    ids=["none", "special function", "several results", "row by row", "gather", "broadcast", "atomic"],
)
def test_what_goes_lane_by_lane_has_its_loop_in_the_code(function, says):
    capture = captured(function, x=tensor(64, 100))
    found = extract(capture).lines()["vectorised"]
    assert says in found
    code = capture.modules[0].code
    assert ("element by element" in found) == any(word in code for word in ("tmpbuf", "atomic_add_vec")), found
    assert ("element by element" in found) == (extract(capture).value("vectorised.scalar") > 0)


def special():
    import torch

    return torch.special
