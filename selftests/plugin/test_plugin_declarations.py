"""Cases that are declared wrongly: pytest prints one message with the line, and no traceback."""

from __future__ import annotations

import sys

import pytest
from suites import SCALE, SM90
from suites import PreloadedSuite as Suite


def declared(how: str, function: str = "def test_it(x):\n    return x * 2") -> str:
    return f"from conformance import case, tensor\n\n@case({how})\n{function}\n"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (
            declared("y=tensor(20)"),
            ":3: ",
            "test_it: no input is declared for the argument 'x': write @case(x=tensor(20))",
        ),
        (
            declared("x=tensor(20), colour='red'"),
            ":3: ",
            "test_it: the keyword 'colour' is neither a parameter of the function (x), nor one of grad, dynamic, ",
        ),
        (declared("x=tensor(20), requires={}"), ":3: ", "test_it: the keyword 'requires' is neither"),
        (declared("x=tensor(20, dtype=['f33'])"), ":3: ", "test_it: x.dtype is 'f33': it must be one of f64, f32, "),
        (declared("x=tensor(20, color='red')"), ":3: ", "tensor() has no property 'color'; it has shape, dtype, "),
        (declared("x=tensor(20, dtype=['f32', 'f32'])"), ":3: ", "axis 'x.dtype' has the label 'f32' twice"),
        (
            declared("x=tensor(20)", "def it(x):\n    return x"),
            ":3: ",
            "it: the name of a case's function must start with test_; rename it to test_it",
        ),
    ],
)
def test_wrong_at_import(tmp_path, text, place, message):
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", text)
    ran = suite.run(*SM90).ends(2)
    if sys.version_info < (3, 11) and not message.startswith("tensor()"):
        place = place.replace("3", "4")  # the line of the function, not that of its decorator
    ran.has(f"ops/test_it.py{place}{message}")
    if "'requires'" in message:
        ran.has("`; did you mean 'require'?")
    ran.has_not("Traceback", "case.py:", "inputs.py:", "plugin.py:")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("require={'cuda u8': {'kernels': 1}}", "require['cuda u8']: 'u8' is no target, no device and no label"),
        ("config={'max_autotun': True}", "config['max_autotun']: torch "),
        ("require={'all': {'kernel': 1}}", "no fact 'kernel': known are kernels, "),
        ("require={'all': {'kernel': 1}}", "; did you mean 'kernels'?"),
        ("only={'gpus': 'it is slow'}", "; did you mean 'gpu'?"),
        ("require={'all': {'same_code_as': 'that'}}", "same_code_as names 'that'; the functions of the file are it"),
    ],
)
def test_wrong_requirement(tmp_path, how, message):
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", declared(f"x=tensor(20), {how}"))
    ran = suite.run(*SM90).ends(4)
    ran.has("test_it.py: test_it: ", message)
    ran.has_not("Traceback", "plugin.py:")


def test_wrong_requirement_with_workers_and_xml(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", declared("x=tensor(20), require={'sm90': {'kernels': 1}}"))
    ran, found = suite.checks(*SM90, "-n", "2")
    ran.ends(1).has("require['sm90']: 'sm90' is no target")
    ran.has_not("Traceback", "INTERNALERROR", "plugin.py:")
    assert [outcome for *_, outcome, _ in found] == ["failure"]


def test_part_of_a_file_is_enough_for_its_requirements(tmp_path):
    """The requirement names a label and a partner of cases that were not selected."""
    suite = Suite(tmp_path)
    how = "x=tensor(20, dtype=['f32', 'f16']), require={'f16': {'kernels': 1, 'same_code_as': 'other'}}"
    other = declared("x=tensor(20, dtype=['f32', 'f16'])", "def test_other(x):\n    return x * 2")
    suite.write("ops/test_it.py", declared(how) + other)
    suite.run(*SM90, "--collect-only", "ops/test_it.py::test_it[f32-cuda_sm90]").ends(0)


def test_two_cases_with_one_id(tmp_path):
    suite = Suite(tmp_path)
    for folder in ("one", "two"):
        suite.write(f"{folder}/__init__.py", "")
        suite.write(f"{folder}/test_scale.py", SCALE)
    ran = suite.run(*SM90, "one", "two").ends(4)
    ran.has("two cases have the id scale/double-f32: in ", "one/test_scale.py and in ", "two/test_scale.py")
    ran.has_not("Traceback")
    suite.run(*SM90, "--collect-only", "two").ends(0)


def test_no_case_at_all(tmp_path):
    """Such as after `pip install 'conformance[suite]'`, with a command of a checkout."""
    suite = Suite(tmp_path)
    suite.run(*SM90).ends(5).has("no case was collected; those of the suite run with: pytest --pyargs conformance.ops")
    suite.write("ops/test_scale.py", SCALE)
    suite.run(*SM90, "-k", "nothing").ends(5).has("-k 'nothing' selects no item").has_not("no case was collected")


def test_a_mark_below_the_declaration_counts(tmp_path):
    suite = Suite(tmp_path)
    suite.write(
        "ops/test_it.py",
        "import pytest\n\nfrom conformance import case, tensor\n\n"
        "@case(x=tensor(20))\n@pytest.mark.skip(reason='not today')\n"
        "def test_it(x):\n    return x * 2\n",
    )
    suite.run(*SM90, "-rs").ends(0).has("not today")
