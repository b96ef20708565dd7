"""`show` of an ad-hoc function: where it is, its inputs and its options."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
import torch

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cli.main import main
from conformance.numerics import messages

MINE = """
import torch

def scale(x, beta=1.0, *, reduction="none"):
    return x * beta

def needs(x, y):
    return x + y

def anything(*tensors):
    return tensors[0]

class Scaled:
    def twice(self, x):
        return x * 2

class Norm(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.rand(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight

class Plain(torch.nn.Module):
    def forward(self, x):
        return x + 1

def make(factor):
    return lambda x: x * factor

scaled = Scaled()
layer = torch.nn.Linear(4, 5)
number = 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a module and a file, as the current folder."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # a project, whatever lies in the folders above
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "__init__.py").write_text("")
    (tmp_path / "ours" / "functions.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(*words):
    """(exit status, stdout, stderr)."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(["show", *words])
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nowhere:f"],
            "there is no module 'nowhere', in this folder or installed; for a file, write path/to/file.py:f",
        ),
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["broken:f"], "broken cannot be imported: No module named 'no_such_module'"),
        (["broken.py:f"], "broken.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        (["ours.functions:scal"], "ours.functions has no function 'scal'; it has scale"),
        (["ours.functions:number"], "ours.functions:number is of type int, which cannot be called; name a function"),
        (["ours.functions:Scaled"], "ours.functions:Scaled is a class; name a function"),
        (["ours.functions:Norm"], r"raises TypeError: .*; write 'ours.functions:Norm\(dim=…\)'"),
        (["ours.functions:Norm(eps=nothing)"], "ours.functions:Norm.* raises NameError: name 'nothing' is not defined"),
        (["ours.functions:scale"], r"ours.functions:scale needs a value for x: add --input x=1x3x224x224:u8$"),
        (
            ["ours.functions:needs", "--input", "x=3:f32"],
            r"ours.functions:needs needs a value for y: add --input y=1x3",
        ),
        (
            ["ours.functions:scale", "--input", "z=3:f32"],
            "ours.functions:scale has no parameter 'z'; its parameters are x, ",
        ),
        (
            ["ours.functions:scale", "--input", "x=3:f32", "--input", "x=4:f32"],
            "--input x is given twice; leave one out",
        ),
        (
            ["ours.functions:anything", "--input", "x=3:f32"],
            "ours.functions:anything takes 'tensors' by position only; ",
        ),
        (
            ["ours.functions:scale", "--input", "x=3:u8", "--grad"],
            "--grad: .* has no input of a floating or complex dtype",
        ),
        (
            ["ours.functions:scale", "--input", "x=3:f32", "--grad", "beta"],
            "--grad beta: .* has no such input of a floating or complex dtype; it has x",
        ),
        (
            ["ours.functions:scale", "--config", "cpp.simdle=1"],
            "torch has no option 'cpp.simdle'; nearest: cpp.simdlen",
        ),
        (["ours.functions:scale", "--config", "cpp.simdlen"], "write NAME=VALUE, such as triton"),
        (["lambda x: x +"], "'lambda x: x \\+' is not valid Python: "),
        (["flip/hflip-224-u8-contiguous", "--input", "x=3:f32"], "flip/hflip-224-u8-contiguous declares its inputs; "),
        (
            ["flip/hflip-224-u8-contiguous", "--graph", "post"],
            "--graph post: there is no such stage; known are captured, ",
        ),
        (["a/b", "c/d"], "name one case or function: got 'a/b' and 'c/d'"),
        ([], "name one case or function: got none"),
    ],
)
def test_bad_input_is_one_sentence(mine, words, message):
    status, out, err = called(*words, "--target", "cpu_avx2")
    assert (status, out) == (2, "")
    assert re.search(message, err.removesuffix("\n"))
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("word", "input_", "id_"),
    [
        ("ours.functions:scale", "x=3x20:u8", "functions/scale"),
        ("ours/functions.py:scale", "x=3x20:u8", "functions/scale"),
        ("ours.functions:scaled.twice", "x=3x20:u8", "functions/scaled.twice"),
        ("lambda x: x * 2", "x=3x20:u8", "adhoc/lambda"),
        ("torch.nn.functional:relu", "input=3x20:u8", "functional/relu"),
        ("ours.functions:layer", "input=3x4:f32", "functions/layer"),
    ],
)
def test_a_function(mine, word, input_, id_):
    status, out, err = called(word, "--input", input_, "--target", "cpu_avx2", "--facts")
    assert (status, err) == (0, "")
    assert out.startswith(f"# {id_} for cpu_avx2: generated, not run; ")
    assert re.search(r"^kernels +\d", out, re.MULTILINE)


def test_options(mine):
    """Gradients, dynamic shapes and Inductor's options reach the compiler, for a declared case too."""
    words = ("--input", "x=3x20:f32", "--target", "cpu_avx2", "--facts")
    _, out, _ = called("ours.functions:scale", *words, "--grad", "--config", "cpp.simdlen=1", "--input", "beta=0.5")
    assert re.search(r"^ +1 forward: mul .*\n +2 backward: mul ", out, re.MULTILINE)
    assert "no vector instruction set" in out
    _, out, _ = called("ours.functions:scale", *words, "--dynamic")
    assert re.search(r"pointwise \(?s\d+\*s\d+", out)
    case, _ = resolve_case("flip/hflip-224-f32-contiguous", (), AdhocOptions(grad=("",), config=("cpp.simdlen=1",)))
    assert (case.id, case.grad, case.config) == ("flip/hflip-224-f32-contiguous", ("x",), {"cpp.simdlen": 1})


def test_how_to_see_it_again():
    asked = AdhocOptions(inputs=("x=3x20:f32", "beta=0.5"), grad=("",), config=("cpp.simdlen=1",))
    case, _ = resolve_case("lambda x, beta: x * beta", (), asked)
    words = "'lambda x, beta: x * beta' --input x=3x20:f32 --input beta=0.5 --config cpp.simdlen=1 --grad="
    message = messages.reproduction(case, "cpu_avx2")
    assert message == f"python -m conformance show {words} --target cpu_avx2 --numerics"


def test_compare_two_functions(mine):
    words = [
        "compare",
        "lambda x: x.flip(-1)",
        "lambda x: x.flip(-2)",
        "--input",
        "x=3x32x32:f32",
        "--target",
        "cpu_avx2",
    ]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(words) == 0
    assert "# facts differ\n" in out.getvalue()
    assert "# code differs\n" in out.getvalue()


@pytest.mark.parametrize(
    ("word", "first"),
    [("Norm(4)", "parameters"), ("Norm(dim=4, eps=0.5)", "parameters"), ("Plain", "parameters"), ("make(3)", "x")],
)
@pytest.mark.parametrize("place", ["ours.functions", "ours/functions.py"])
def test_a_call_makes_the_module_or_the_function(mine, word, first, place):
    """Its weights are the same in each process that makes the case."""
    options = AdhocOptions(inputs=("x=3x4",))
    (case, _), (again, _) = (resolve_case(f"{place}:{word}", (), options) for _ in range(2))
    assert next(iter(case.arguments)) == first
    assert case.name == word.partition("(")[0]
    one, other = (each.build() for each in (case, again))
    assert torch.equal(case.fn(**one), again.fn(**other))


EXPLAINED = ["--html", "ours/functions.py:scale", "--input", "x=8:f32"]


LONG = pytest.mark.long("it compiles a C++ kernel, with the assembler's text of each line")


@pytest.mark.parametrize("names", [pytest.param("cpu_avx2, cuda_sm90", marks=LONG), "xpu_pvc"])
def test_a_page_explains_the_kernels_for_each_target(mine, names):
    status, out, _ = called(*EXPLAINED, "--target", names.replace(" ", ""))
    assert status == 0
    assert re.fullmatch(rf"(?:.*/)?\.conformance/functions-scale\.html: \d\.\d MB, functions/scale for {names}\n", out)
    assert "data-section-explain" in (mine / ".conformance/functions-scale.html").read_text(encoding="utf-8")


def test_a_page_has_all_parts(mine):
    status, _, err = called(*EXPLAINED, "--why", "--target", "cpu_avx2")
    assert status == 2
    assert "--html writes all parts into one page: leave out the options" in err
