"""`show` of an ad-hoc function: where it is, its inputs and its options."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
import torch

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.input_syntax import InputError, parse_input
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

scaled = Scaled()
layer = torch.nn.Linear(4, 5)
number = 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a module and a file, as the current folder."""
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


def built(text: str, seed: int = 0):
    """The value of `x=…`."""
    name, value = parse_input(f"x={text}")
    assert name == "x"
    argument = value.argument
    return argument.build(value.choice, seed) if hasattr(argument, "build") else argument


@pytest.mark.parametrize(
    ("text", "shape", "stride", "dtype"),
    [
        ("3x224x224:u8", (3, 224, 224), (50176, 224, 1), torch.uint8),
        ("20:f32", (20,), (1,), torch.float32),
        ("64x1000", (64, 1000), (1000, 1), torch.float32),
        ("scalar:bf16", (), (), torch.bfloat16),
        ("1x3x8x8:u8:channels_last", (1, 3, 8, 8), (192, 1, 24, 3), torch.uint8),
        ("3x8x8:channels_last", (3, 8, 8), (1, 24, 3), torch.float32),
        ("3x8:transposed:f16", (3, 8), (1, 3), torch.float16),
        ("3x8:sliced", (3, 8), (30, 1), torch.float32),
        ("0x10", (0, 10), (10, 1), torch.float32),
        ("torch.randn(3, 4)[:, 1:]", (3, 3), (4, 1), torch.float32),
    ],
)
def test_tensors(text, shape, stride, dtype):
    value = built(text)
    assert (value.shape, value.stride(), value.dtype) == (shape, stride, dtype)
    assert torch.equal(value, built(text))
    if value.numel():
        assert not torch.equal(value, built(text, seed=1))


def test_a_range():
    value = built("1000:f32:low=2:high=3")
    assert (2 <= value.min() < 2.1, 2.9 < value.max() <= 3) == (True, True)


@pytest.mark.parametrize(
    ("text", "value"),
    [("20", 20), ("0.5", 0.5), ("'mean'", "mean"), ("[0, -1]", [0, -1]), ("None", None), ("torch.uint8", torch.uint8)],
)
def test_constants(text, value):
    assert built(text) == value


def test_a_file(tmp_path):
    torch.save(torch.arange(6).reshape(2, 3).T, tmp_path / "x.pt")
    value = built(f"{tmp_path}/x.pt")
    assert (value.tolist(), value.stride()) == ([[0, 3], [1, 4], [2, 5]], (1, 3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", r"write NAME=VALUE, such as x=1x3x224x224:u8:channels_last"),
        ("2x=3", r"write NAME=VALUE, such as x="),
        (
            "x=3x4:f31",
            r"'f31' is neither a dtype \(f64, .* nor a layout \(contiguous, .* nor a range \(low=0, high=1\)",
        ),
        ("x=3x4:diagonal", "'diagonal' is neither a dtype"),
        ("x=3x4:f32:u8", "dtype has two values, f32 and u8; leave one out"),
        ("x=3x4:low=a", "'low=a' must be a number, such as low=0.5"),
        ("x=3x4:channels_last", "channels_last needs 3 or 4 dimensions, such as 3x224x224 or 1x3x224x224; 3x4 has 2"),
        ("x=4:f32:sliced", "sliced needs 2 dimensions or more; 4 has 1"),
        ("x=mean", r"NameError: name 'mean' is not defined; a value is a shape \(3x224x224\), a Python literal"),
        ("x=none.pt", "none.pt: No such file or directory"),
    ],
)
def test_a_wrong_input(text, said):
    with pytest.raises(InputError, match=f"^--input '{text}': .*{said}"):
        parse_input(text)


@pytest.mark.parametrize(
    ("words", "said"),
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
def test_bad_input_is_one_sentence(mine, words, said):
    status, out, err = called(*words, "--target", "cpu_avx2")
    assert (status, out) == (2, "")
    assert re.search(said, err.removesuffix("\n"))
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
    said = messages.reproduction(case, "cpu_avx2")
    assert said == f"python -m conformance show {words} --target cpu_avx2 --numerics"


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
