"""ci/commands.py: the commands that it finds in a page, and what it says of one that fails. They are quick fakes."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path

import pytest
from suites import REPOSITORY

from conformance.cli import overlay_options
from conformance.cli.main import COMMANDS
from conformance.harness.configuration.pytest_options import OPTIONS

sys.path.insert(0, str(REPOSITORY / "ci"))
import commands
import documented_commands

#: Options of pytest and of other plugins that the pages use.
OF_PYTEST = (
    "-k",
    "-n",
    "-s",
    "-q",
    "-p",
    "--pdb",
    "--pyargs",
    "--help",
    "--collect-only",
    "--junit-xml",
    "--splits",
    "--group",
)


@pytest.fixture
def page(tmp_path):
    """Writes a page and returns its commands."""

    def write(*blocks: str, default: str = ""):
        file = tmp_path / "page.md"
        text = "\n\n".join(["# Page", *([default] if default else []), *blocks])
        file.write_text(text, encoding="utf-8")
        return list(documented_commands.commands(file, tmp_path))

    return write


@pytest.fixture
def ran(page, tmp_path, capsys, monkeypatch):
    """Runs the commands of a page in one folder, and returns the exit status and what is printed."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr(commands.Places, "place", lambda *_: (folder, Path(sys.executable)))

    def run(*blocks: str):
        status = commands.run_all(page(*blocks), commands.Places(tmp_path / "work"))
        return status, capsys.readouterr().out

    return run


def block(mark: str, *lines: str, language: str = "bash") -> str:
    return "\n".join([*([f"<!-- {mark} -->"] if mark else []), f"```{language}", *lines, "```"])


def test_every_page_is_marked():
    for file in documented_commands.pages():
        list(documented_commands.commands(file))


def test_a_block_without_a_language_is_one_if_it_begins_as_a_command_does(page):
    marked = "runs in: checkout"
    assert [each.text for each in page(block(marked, "pytest -n auto   # all", "A=1 python x.py", language=""))] == [
        "pytest -n auto",
        "A=1 python x.py",
    ]
    assert page(block("", "21 items = 18 passed", language=""), block("", "pytest", language="toml")) == []


def test_lines_after_a_prompt_are_output(page):
    first, second = page(block("runs in: project", "$ pytest a", "1 passed", "", "$ pytest b \\", "    -k c", "…"))
    assert (first.text, first.shown, first.line) == ("pytest a", ("1 passed",), 5)
    assert (second.text, second.shown, second.line) == ("pytest b -k c", ("…",), 8)


def test_the_page_has_what_its_blocks_do_not_say(page):
    default = "<!-- commands run in: checkout\nadds: -k all\n-->"
    first, second = page(
        block("", "pytest a", "python b"), block("runs in: project\nadds: -k c\n", "pytest d"), default=default
    )[::2]
    assert (first.place, first.as_run()) == ("checkout", "pytest a -k all")
    assert (second.place, second.as_run()) == ("project", "pytest d -k c")


def test_a_part_chooses_commands(page):
    mark = "runs in: checkout\nadds [-q$]: x\nwith [FILE]: y.py\nnot run [gpu]: it needs a GPU\nstatus [FILE]: 3\n"
    quiet, file, gpu = page(block(mark, "pytest -q", "pytest -q FILE", "pytest gpu"))
    assert (quiet.as_run(), file.as_run()) == ("pytest -q x", "pytest -q y.py")
    assert (file.value("status"), quiet.value("status")) == ("3", "")
    assert (gpu.value("not run"), quiet.value("not run")) == ("it needs a GPU", "")


def test_a_file_that_the_page_gives(page):
    plain, own = page(
        *(f"<!-- file: test_x.py{more} -->\n```python\nx = 1\n```" for more in ("", "\nruns in: own project\n"))
    )
    assert (plain.file, plain.text, plain.place, plain.section) == ("test_x.py", "x = 1\n", "project", "Page")
    assert (own.file, own.place) == ("test_x.py", "own project")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([block("", "pytest")], "page.md:3: the block has no mark"),
        ([block("runs in: moon", "pytest")], "page.md:4: unknown place 'moon': there are checkout, project"),
        ([block("runs in: project\nlimits: 3\n", "pytest")], "'limits: 3' is no line of a mark"),
        ([block("runs in: project\nadds [-k]: x\n", "pytest")], "no command of the block has '-k'"),
        ([block("runs in: project", "x = 1", language="")], "the block below this mark has no command"),
        ([block("runs in: project\nwrites: a.py: b = 1\n", "pytest")], "the page does not give the text of a.py"),
    ],
)
def test_wrong_marks(page, blocks, message):
    with pytest.raises(documented_commands.MarkError, match=r"^page\.md:") as raised:
        page(*blocks)
    assert message in str(raised.value)


def test_the_steps_of_a_workflow(tmp_path):
    file = tmp_path / "ci.yml"
    file.write_text(
        "      # adds [-q]: x\n      # a comment\n      - run: pytest -q\n      # run by: y.py\n      - run: cat a\n"
    )
    quiet, cat = documented_commands.commands(file, tmp_path)
    assert (quiet.as_run(), quiet.place, quiet.line) == ("pytest -q x", "workflow", 3)
    assert commands.why_not(cat) == "y.py runs it"
    file.write_text("      - run: |\n          pytest\n")
    with pytest.raises(documented_commands.MarkError, match=r"^ci\.yml:1: write a step for each command"):
        list(documented_commands.commands(file, tmp_path))


def test_a_workflow_has_the_variables_of_ci(tmp_path, monkeypatch, capsys):
    file, place = tmp_path / "ci.yml", tmp_path / "place"
    command = "echo $CI $GITHUB_REF_NAME | tee $GITHUB_STEP_SUMMARY"
    file.write_text(f"      # prints: true main\n      - run: {command}\n")
    place.mkdir()
    monkeypatch.setattr(commands.Places, "place", lambda *_: (place, Path(sys.executable)))
    found = list(documented_commands.commands(file, tmp_path))
    assert commands.run_all(found, commands.Places(tmp_path / "work")) == 0, capsys.readouterr().out


def test_commands_that_do_what_the_page_shows(ran):
    status, out = ran(
        block(
            "runs in: project\nwrites: a.txt: one\nbefore: echo two >> a.txt\n", "$ cat a.txt", "o…e", "two", "$ pwd"
        ),
        "A reader writes `one`.",
        block("runs in: project\nstatus: 3\n", "exit 3"),
        block("not run: it needs a GPU", "pytest --device cuda"),
        block("run by: a script", "pytest"),
        block("runs in: project\nends at: ready\n", "echo ready; sleep 60"),
    )
    assert status == 0, out
    assert "not run  page.md:25: pytest --device cuda: it needs a GPU\n" in out
    assert "not run  page.md:30: pytest: a script runs it\n" in out
    assert "6 commands: 4 ok, 0 failed, 2 not run here; " in out


@pytest.mark.parametrize(
    ("mark", "lines", "reason"),
    [
        ("runs in: project", ["echo hello; exit 2"], "it ended with status 2, and not 0\n    hello\n"),
        ("runs in: project\nstatus: 1\n", ["true"], "it ended with status 0, and not 1\n"),
        ("runs in: project", ["$ echo a", "b"], "the page shows 'b', and no line of the output has it\n    a\n"),
        (
            "runs in: project",
            ["$ echo 17 passed in 3 s", "18 passed in 4 s"],
            "a figure differs: the page has '18 passed in 4 s', the run '17 passed in N s'\n",
        ),
        ("runs in: project\nprints: c\n", ["$ echo a", "a"], "the page shows 'c', and no line"),
        ("runs in: project", ["true -o site/page.html"], "it did not write site/page.html\n"),
        ("runs in: project\nlimit: 1\n", ["echo begun; sleep 60"], "it did not end within 1 s\n    begun\n"),
        ("runs in: project\nbefore: exit 4\n", ["true"], "before it, 'exit 4' ended with status 4\n"),
        ("runs in: project\nends at: x\n", ["echo y"], "it ended, and did not print 'x'\n    y\n"),
    ],
)
def test_commands_that_fail(ran, mark, lines, reason):
    status, out = ran(block(mark, *lines))
    assert status == 1
    assert reason in out
    assert "FAILED   page.md:" in out
    assert "0 ok, 1 failed" in out


@pytest.mark.parametrize(
    ("shown", "output", "same"),
    [
        ("took 3.5 s", "took 12 s", True),
        ("  two   words", "two words", True),
        ("…/x.py: 3 of 4", "/home/me/x.py: 3 of 4", True),
        ("4 passed", "14 passed", False),
        ("1 file", "10 files", False),
        ("…", "", True),
    ],
)
def test_lines_are_compared(shown, output, same):
    assert (commands.mismatch([shown], output) == "") is same


def test_what_is_set_here_does_not_reach_a_command(tmp_path, monkeypatch):
    for name in ("CI", "EXPECTTEST_ACCEPT", "CONFORMANCE_FACTOR", "PYTEST_ADDOPTS", "GITHUB_ACTIONS"):
        monkeypatch.setenv(name, "1")
    env = commands.Places(tmp_path / "work").environment(Path(sys.executable))
    assert not {"CI", "EXPECTTEST_ACCEPT", "CONFORMANCE_FACTOR", "PYTEST_ADDOPTS", "GITHUB_ACTIONS"} & set(env)
    assert env["HOME"] == str(tmp_path / "work" / "home")


def test_a_section_runs_with_what_is_installed(tmp_path, monkeypatch, capsys):
    text = "\n\n".join(["# A", block("runs in: project", "exit 3"), "## B", block("runs in: checkout", "touch made")])
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr(documented_commands.commands, "__defaults__", (tmp_path,))
    words = ["commands.py", str(tmp_path / "page.md"), "--section", "B", "--installed", str(tmp_path / "place")]
    monkeypatch.setattr(sys, "argv", words)
    assert commands.main() == 0, capsys.readouterr().out
    assert (tmp_path / "place/made").exists()


def test_parts_have_all_pages_once():
    found = {file: list(documented_commands.commands(file)) for file in documented_commands.pages()}
    divided = commands.parts(found, 3)
    assert sorted(page for part in divided for page in part) == sorted(found)
    assert all(divided)


def test_commands_in_sentences_have_options_that_exist():
    """Commands in the text of a page are not run. Their options are compared with the parsers."""
    known = {name: _options_of(name, module) for name, (module, _) in COMMANDS.items()}
    known["pytest"] = {*(f"--{name}" for name in OPTIONS), *OF_PYTEST}
    wrong, found = [], 0
    for file in documented_commands.pages():
        text = re.sub(r"^ *(```|~~~).*?^ *\1", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for span in re.findall(r"`([^`\n]+)`", text):
            match = re.match(r"(?:[A-Z_]+=\S+ )*(?:python -m conformance |… |(?=pytest ))([a-z]+)", span)
            if match and match[1] in known:
                found += 1
                options = re.findall(r"(?<=\s)(--[a-z][\w-]*|-[a-zA-Z]\b)", span[match.end() :])
                wrong += [f"{file.name}: `{span}`: {each}" for each in options if each not in known[match[1]]]
    assert wrong == []
    assert found > 100


def _options_of(name: str, module: str) -> set[str]:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"conformance.cli.commands.{module}").add_arguments(parser)
    overlay_options.add_overlay_options(name, parser)
    overlay_options.add_source_option(name, parser)
    found, parsers = set(), [parser]
    for each in parsers:
        found.update(each._option_string_actions)
        subparsers = [action for action in each._actions if isinstance(action, argparse._SubParsersAction)]
        parsers += [other for action in subparsers for other in action.choices.values()]
    return found
