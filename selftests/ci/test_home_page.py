"""The home page of the documentation: numbers from the data, and the diff of a kernel as a picture."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from conformance.devices.targets import targets

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci" / "documentation"))

import bugs_page  # noqa: E402
import home_page  # noqa: E402


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    home_page.write_page(folder)
    return folder


def test_the_numbers_are_those_of_the_data(source: Path) -> None:
    text = (source / "index.md").read_text(encoding="utf-8")
    found = [int(number.replace(",", "")) for number in re.findall(r"<dd>([\d,]+)</dd>", text)]
    assert found[0] == len(bugs_page.known()) == sum(found[1:5])
    assert found[-1] == len(targets())
    assert "severity=Wrong%20values%20in%20ordinary%20use" in text


def test_the_bug_is_one_of_the_table(source: Path) -> None:
    text = (source / "index.md").read_text(encoding="utf-8")
    assert re.findall(r'#/bug/([^"]*)"', text)[0] in {bug.id for bug in bugs_page.known()}


def test_the_picture_is_the_diff(source: Path) -> None:
    for scheme in home_page.SCHEMES:
        drawn = ET.parse(source / "_static" / f"kernel-{scheme}.svg")  # noqa: S314 - the test wrote the file
        lines = [each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert [line.replace("\u00a0", " ") for line in lines] == home_page.diff()
    assert any(line.startswith("-") for line in home_page.diff())


def test_a_picture_escapes_code() -> None:
    assert "&lt;float&gt;&amp;" in home_page.picture(["+ a<float>&"], home_page.SCHEMES["dark"])


def test_a_case_that_did_not_change_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_page, "CASE", "no/such")
    with pytest.raises(SystemExit, match="name another case"):
        home_page.diff()
