"""Each command, with odd cases, odd projects and odd words, ends in a message and never in a traceback."""

from __future__ import annotations

import random

import pytest
from suites import CONFTEST, PreloadedSuite

from conformance.cli.main import COMMANDS

HUNDRED = ", ".join(f"x{number}" for number in range(100))
ODD = f"""
import torch
from conformance import case, module, tensor

@case(x=tensor(0, 3))
def test_empty(x):
    return x * 2 + x.sum()

@case(x=tensor(3, 0), grad="x")
def test_empty_gradient(x):
    return x.exp()

@case(x=tensor(shape=()))
def test_no_dimensions(x):
    return x.sin() + 1

@case(x=tensor(4, dtype="c64"))
def test_complex(x):
    return x * x.conj()

@case(x=tensor(7, dtype=["bool", "i8"]))
def test_integers(x):
    return x.sum(), ~x

@case()
def test_no_inputs():
    return torch.arange(5.0) * 2

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()

@case(net=module(Layer), x=tensor(2, 3), grad="net x")
def test_module(net, x):
    return net(x)

@case({", ".join(f"x{number}=tensor(3)" for number in range(100))})
def test_hundred({HUNDRED}):
    return sum([{HUNDRED}])

@case(x=tensor(3))
def test_nothing(x):
    return None

@case(x=tensor(3))
def test_unchanged(x):
    return x
"""
SPACES = """
from conformance import case, tensor

@case(x=tensor(3))
def test_it(x):
    return x + 1
"""
IDS = [
    "odd/empty",
    "odd/empty_gradient",
    "odd/no_dimensions",
    "odd/complex",
    "odd/integers-bool",
    "odd/integers-i8",
    "odd/no_inputs",
    "odd/module",
    "odd/hundred",
    "odd/nothing",
    "odd/unchanged",
    "with spaces/it",
]
SM90 = ["--target", "cuda_sm90"]
PARTS = ["facts", "why", "graph", "ir", "code", "raw", "bytecode", "kernels", "log", "numerics"]
#: What people ask about a case. CASE stands for its id.
OF_A_CASE = [
    *(["show", "CASE", *SM90, f"--{part}"] for part in PARTS),
    ["show", "CASE", *SM90, "--binary", "--stage", "ttir"],
    ["compare", "CASE", "cuda_sm90", "cuda_sm80"],
    ["compare", "CASE", "odd/no_dimensions", *SM90, "--side-by-side"],
    ["compare", "CASE", "--compiled", "regional", *SM90],
    ["compare", "CASE", "--compiled", "exported", *SM90],
    ["estimate", "CASE", *SM90],
    ["list", "CASE", "--json"],
    ["list", "CASE", *SM90],
    ["blame", "CASE", *SM90, "--old", "nowhere", "--new", "."],
    ["bisect", "CASE", *SM90, "--source", ".", "--good", "a", "--bad", "b"],
]
#: These start processes, or compile C++.
SLOW = [
    ["show", "CASE", "--target", "cpu_avx2", "--numerics"],
    ["minimise", "CASE", *SM90, "--trials", "2"],
    ["explore", "CASE", *SM90, "--minutes", "0.05"],
    ["bench", "CASE", "--min-time", "0.01"],
]
#: What people ask about a run of all of them.
OF_A_RUN = [
    ["review", "--list"],
    ["review", "--by", "case", "--list", "--json"],
    ["report"],
    ["report", "--markdown", "a summary.md", "--json", "report.json", "--junit", "junit.xml"],
    ["list", "--missed", "last"],
    ["merge", "last", "-o", "all together"],
    ["accept", "last"],
    ["accept", "last", "odd tests"],
    ["prune", "--yes"],
    ["prune", "--torch", "2.13", "--yes"],
    ["coverage", "make", *SM90, "-k", "spaces"],
    ["coverage", "redundant"],
]
ODD_WORDS = ["", " ", "*", "[", "::", "test_[x]", "a\0b", "odd tests", "odd tests/test_odd.py", "🙂", "-", "x" * 300]
#: With such a word, they may compile all cases, or list those of the package.
COMPILES = ("bench", "estimate", "explore", "minimise", "list")
TESTPATHS = ["'.'", "'odd tests'", "'odd tests/'", "'odd tests/test_odd.py'", "'odd*'", "**", "**/test_*.py", "..",
             "missing", "'odd", "", "ROOT", "'ROOT/odd tests'"]  # fmt: skip


@pytest.fixture(scope="module")
def odd_project(tmp_path_factory):
    """A project whose folders, files and cases are odd."""
    suite = PreloadedSuite(tmp_path_factory.mktemp("a project"), CONFTEST)
    suite.write("odd tests/test_odd.py", ODD)
    suite.write("odd tests/test_with spaces.py", SPACES)
    return suite


@pytest.fixture
def ends_in_a_message(odd_project, monkeypatch, call):
    """Calls a command there; an exception that it does not turn into a message fails the test by itself."""
    monkeypatch.chdir(odd_project.root)

    def check(*words):
        status, out, err = call(*words)
        assert status in (0, 1, 2), words
        assert (out + err).strip() or words[:2] == ("coverage", "make"), words  # its process prints by itself
        assert "Traceback (most recent call last)" not in out + err, words

    return check


def of_case(words, id_):
    return [id_ if word == "CASE" else word for word in words]


@pytest.mark.parametrize("seed", range(4))
def test_a_sample(ends_in_a_message, seed):
    drawn = random.Random(seed)
    part, id_ = drawn.choice(PARTS), drawn.choice([id_ for id_ in IDS if id_ != "odd/hundred"])
    ends_in_a_message("show", id_, *SM90, f"--{part}")


@pytest.mark.long("each question captures its case anew, and four start processes or compile C++")
@pytest.mark.parametrize("number", range(len(IDS)), ids=IDS)
def test_questions_about_an_odd_case(ends_in_a_message, number):
    """Each case has every third question, and each question has every third case: all pairs captured for minutes."""
    for words in [*OF_A_CASE, *SLOW][number % 3 :: 3]:
        ends_in_a_message(*of_case(words, IDS[number]))


@pytest.mark.long("it runs all odd cases, and reads the run with each command")
def test_a_run_of_odd_cases(odd_project, ends_in_a_message):
    odd_project.run(*SM90, timeout=600).has_not("INTERNALERROR", "/conformance/harness/")
    for words in OF_A_RUN:
        ends_in_a_message(*words)


@pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name not in ("watch", "confirm", "doctor", *COMPILES)]
)
def test_odd_words(ends_in_a_message, command):
    """`watch` stays where a word is right; `confirm` and `doctor` look at the machine first."""
    for word in ODD_WORDS:
        ends_in_a_message(command, word)
        ends_in_a_message(command, *SM90, word)


@pytest.mark.long("such a word may name all cases, which are compiled")
@pytest.mark.parametrize("command", COMPILES)
def test_odd_words_that_may_name_all_cases(ends_in_a_message, command):
    options = {"bench": ["--min-time", "0.01"], "explore": [*SM90, "--minutes", "0.05"]}
    for word in ODD_WORDS:
        ends_in_a_message(command, word, *options.get(command, SM90))


@pytest.mark.parametrize("testpaths", TESTPATHS)
def test_each_form_of_testpaths(odd_project, ends_in_a_message, testpaths):
    ends_with_testpaths(odd_project, ends_in_a_message, testpaths)


def ends_with_testpaths(odd_project, ends_in_a_message, testpaths):
    text = testpaths.replace("ROOT", str(odd_project.root))
    odd_project.write("pytest.ini", f"[pytest]\ntestpaths = {text}\n")
    try:
        for words in (["list"], ["show", "odd/nowhere"], ["estimate", "nowhere"], ["prune"], ["review", "--list"]):
            ends_in_a_message(*words)
    finally:
        odd_project.write("pytest.ini", "[pytest]\n")
