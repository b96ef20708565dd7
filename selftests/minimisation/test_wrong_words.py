"""What `minimise` says to wrong words. None of them compiles."""

from __future__ import annotations

import pytest

from conformance.cli.main import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.py", "--target", "cpu_avx2"], "there is no file missing.py"),
        (["bug.py", "--torch-source", "gone@main"], "--torch-source: there is no folder gone; name a checkout"),
        (["bug.py"], "no target: add --target {"),
        (["bug.py", "--target", "cpu_avx3"], "unknown target 'cpu_avx3': add --target {"),
        (["bug.py", "--trials", "0"], "--trials and --time-limit must be above 0"),
        (["bug.py", "--output", "small.txt"], "--output small.txt: the name of the script must end with .py"),
        (["bug.py", "--target", "cpu_avx2", "--call", "nan"], "--call is for cases: a script has its own values"),
        (["empty.py", "--target", "cpu_avx2"], "Dynamo captures no graph that computes something"),
        (["raises.py", "--target", "cpu_avx2"], "raises.py compiles nothing, and raises ValueError: it does"),
        (["old.py", "--target", "cpu_avx2"], "minimised_old.py exists already: name another file with --output"),
    ],
)
def test_one_message(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    for name, text in {"bug": "", "empty": "", "raises": "raise ValueError('it does')", "old": ""}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "minimised_old.py").write_text("")
    assert main(["minimise", *words]) == 2
    assert f"error: {message}" in capsys.readouterr().err
