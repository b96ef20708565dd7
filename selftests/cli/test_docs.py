"""`docs`: the pages of documentation, and that messages name pages and sections that exist."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from conformance import documentation
from conformance.cli.main import main
from conformance.documentation import pages, reference, sections

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci"))
import links  # noqa: E402


def test_list_has_each_page_with_its_title(capsys):
    assert main(["docs"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["numerics"].startswith("Numerics: ")
    assert listed["changelog"] == "Changelog"
    here = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"readme", "contributing", "changelog"}
    assert {name for name in listed if "/" not in name} == here


def test_page_without_its_comments(capsys):
    assert main(["docs", "numerics"]) == 0
    page = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
    title, comment, rest = page.split("\n\n", 2)
    assert comment.startswith("<!-- commands run in: ")
    printed = capsys.readouterr().out
    assert printed.startswith(f"{title}\n\n{rest[:500]}")
    assert "<!--" not in printed
    assert printed.count("\n```") == page.count("\n```")


@pytest.mark.parametrize("name", ["numerics#audit-of-opt-outs", "docs/numerics.md#audit-of-opt-outs"])
def test_section_ends_at_the_next_of_its_level(capsys, name):
    assert main(["docs", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## Audit of opt-outs"]
    assert lines[0] == "## Audit of opt-outs"
    assert len(lines) > 20


def test_section_has_its_subsections(capsys):
    assert main(["docs", "numerics#the-policy"]) == 0
    assert "### How the numbers were found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("numeric", "there is no page 'numeric'; nearest: numerics; the pages are accuracy, architecture, "),
        ("numerics#sedes", "the page numerics has no section 'sedes'; nearest: seeds; its sections are "),
    ],
)
def test_unknown_name(capsys, name, message):
    assert main(["docs", name]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {message}")
    assert printed.err.count("\n") == 1


def test_installation_without_pages(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(documentation, "_PACKAGE", tmp_path / "conformance")
    assert main(["docs"]) == 2
    assert "this installation has no pages" in capsys.readouterr().err


def test_pages_of_a_wheel(monkeypatch, tmp_path):
    """The wheel keeps README.md and others in the folder of the pages."""
    for name in ("README.md", "numerics.md", "upstream/one.md"):
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# A page\n")
    monkeypatch.setattr(documentation, "_PACKAGE", tmp_path)
    assert list(pages()) == ["numerics", "readme", "upstream/one"]


def test_anchors_are_those_that_links_use():
    for path in pages().values():
        assert set(sections(path.read_text(encoding="utf-8"))) == links.anchors(path), path


def _references():
    for path in sorted((ROOT / "conformance").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for page, section in re.findall(r"conformance docs ([\w/.-]+)(?:#([\w-]+))?[\"`'); ]", text):
            yield str(path.relative_to(ROOT)), [page, section] if section else [page]
        if "reference(" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "reference" and node.args:
                    words = [word.value for word in node.args if isinstance(word, ast.Constant)]
                    if words and len(words) == len(node.args):
                        yield str(path.relative_to(ROOT)), words


def test_messages_name_pages_and_sections_that_exist():
    known = pages()
    found = list(_references())
    assert len(found) > 8
    for path, (page, *section) in found:
        assert page in known, (path, page)
        for anchor in section:
            assert anchor in sections(known[page].read_text(encoding="utf-8")), (path, page, anchor)


def test_reference_is_the_command():
    assert reference("numerics") == "`python -m conformance docs numerics`"
    assert reference("numerics", "seeds") == "`python -m conformance docs numerics#seeds`"


def test_setup_has_the_same_pages():
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    values = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    assert ast.literal_eval(values["BESIDE"]) == documentation.BESIDE
