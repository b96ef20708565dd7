"""The sources of the documentation site: links between pages, pages of source files, and the reference."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import conformance
from conformance.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    sys.path.insert(0, str(ROOT / "ci" / "documentation"))
    try:
        import pages
        import reference
    finally:
        sys.path.pop(0)
    pages.write_pages(folder)
    reference.write_reference(folder)
    return folder


def test_each_page_is_there_and_each_link_leads_to_one(source: Path) -> None:
    pages = {path.relative_to(source) for path in source.rglob("*.md")}
    assert {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")} <= pages
    for page in pages:
        text = re.sub(
            r"^(```|~~~).*?^\1", "", (source / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for address in re.findall(r"\]\(<?([^()\s>]+)>?\)", text):
            file = address.partition("#")[0]
            if file and not re.match(r"[a-z]+:", address) and not file.endswith((".html", ".png")):
                assert (source / page).parent.joinpath(file).resolve().exists(), f"{page}: {address}"


def test_a_linked_file_of_the_repository_is_a_page(source: Path) -> None:
    page = source / "source" / "conformance" / "devices" / "targets.toml.md"
    assert "literalinclude} /_files/conformance/devices/targets.toml" in page.read_text(encoding="utf-8")
    assert (source / "_files/conformance/devices/targets.toml").is_file()


def test_the_reference_has_each_public_name_command_and_option(source: Path) -> None:
    names = (source / "reference" / "names.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", names, flags=re.MULTILINE) == conformance.__all__
    commands = (source / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", commands, flags=re.MULTILINE) == list(COMMANDS)
    assert "usage: python -m conformance report" in commands
    assert "`--conformance-device LIST`" in (source / "reference" / "pytest-options.md").read_text(encoding="utf-8")
