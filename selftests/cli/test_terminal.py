"""Colours and progress on a terminal; the help of each command; the script that a failing item leaves."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import terminal
from conformance.cases.lookup import find_case
from conformance.cli.highlighting import highlighted
from conformance.cli.main import COMMANDS, main
from conformance.devices.targets import targets
from conformance.harness.reproduction.script import suite_script

ROOT = Path(__file__).parents[2]
SNAPSHOTS = sorted((ROOT / "conformance" / "expected_code" / "flip").glob("*.txt"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch, columns=1000):
    """Puts a terminal in place of stdout. By default it is wider than any line."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORTERM", raising=False)


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("language", ["code", "python", "log", "bytecode"])
def test_highlighting_changes_nothing_but_colours(monkeypatch, language):
    use_terminal(monkeypatch)
    for file in SNAPSHOTS:
        text = file.read_text()
        assert without_colours(highlighted(text, language)) == text
        assert highlighted(text, "") == text


def test_colours_follow_the_language(monkeypatch):
    use_terminal(monkeypatch)
    coloured = highlighted('kernels     1: flip\n\n#include "x.h"\nreturn 1;\n# kernel a\ndef f():\n    pass\n', "code")
    assert coloured.startswith("\x1b[36mkernels\x1b[0m     1: flip\n")
    assert "\x1b[96m#\x1b[0m" in coloured  # a directive of the C++ preprocessor
    assert "\x1b[2m# kernel a\x1b[0m" in coloured  # a comment in Python
    assert highlighted("[fusion] 2 nodes", "log") == "\x1b[36m[fusion]\x1b[0m 2 nodes"


def test_a_long_fact_is_folded_on_a_terminal_only(monkeypatch):
    line = "vectorised  no: load index 224*x0 - x1 + 223 is not contiguous"
    assert highlighted(line, "facts") == line
    use_terminal(monkeypatch, columns=30)
    assert without_colours(highlighted(line, "facts")).splitlines() == [
        "vectorised  no: load index",
        "              224*x0 - x1 +",
        "              223 is not",
        "              contiguous",
    ]


def test_progress_is_for_terminals(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stderr", stream)
        with terminal.progress(2) as show:
            show("first [case]")
            show("second")
        shown = stream.getvalue()
        if stream.isatty():
            assert "first [case]" in shown
            assert re.search(r"1/2.*second", without_colours(shown))
        else:
            assert shown == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_the_command_and_has_examples(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    usage, description, *_ = shown.split("\n\n")
    assert usage.startswith(f"usage: python -m conformance {command} ")
    assert description[0].isupper()
    assert f"python -m conformance {command}" in shown.partition("\nexamples:\n")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_help_imports_neither_torch_nor_rich():
    code = "import sys; from conformance.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'rich', 'torch'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.endswith("\n[]\n")


@pytest.mark.long("it runs a case and then its script, in a process of its own")
def test_the_script_that_a_failing_item_leaves_shows_the_case(tmp_path):
    """The script is a text: only running it shows whether its imports are right."""
    case, _ = find_case("flip/hflip-224-u8-contiguous", ())
    script = tmp_path / "reproduce.py"
    script.write_text(suite_script(case, targets()["cpu_neon"]))
    result = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False)
    # A build of torch for cuda says that it does not replace the hooks of the pretended device.
    errors = [line for line in result.stderr.splitlines() if not line.startswith("Higher priority item already")]
    assert (result.returncode, errors) == (0, [])
    assert result.stdout.startswith("# flip/hflip-224-u8-contiguous for cpu_neon: generated, not run; ")
    # Where qemu is installed, it runs the kernels.
    assert re.search(r"\nnumerics    (not checked: |right \(emulated by qemu)", result.stdout)
