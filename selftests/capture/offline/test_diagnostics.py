"""Which words of Triton's compiler an error quotes."""

import pytest

from conformance.capture.offline.compiler import _diagnostic

PROGRAM = "module attributes {} {\n  tt.func @f() {\n"


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("", ""),
        (PROGRAM, ""),
        (f"Unsupported conversion\n#blocked = 1\n{PROGRAM}", "Unsupported conversion"),
        (
            f"folder/k.py:9:25: error: 'tt.load' op is bad\nfolder/k.py:3:1: note: called from\n{PROGRAM}",
            "line 9: 'tt.load' op is bad",
        ),
        (f"refused\nrefused\nLLVM ERROR: no\n{PROGRAM}", "refused; LLVM ERROR: no"),
    ],
)
def test_the_words_before_the_program(said, quoted):
    assert _diagnostic(said) == quoted
