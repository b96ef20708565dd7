"""The sources of the documentation site: links between pages, pages of source files, and the reference."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

import conformance
from conformance.cases.lookup import package_cases
from conformance.cases.selectors import values_for
from conformance.cli.main import COMMANDS, main
from conformance.devices.targets import targets
from conformance.expectations import known_failures
from conformance.expectations.requirements import JUDGEMENT
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Store

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci" / "documentation"))

import accessibility  # noqa: E402
import bugs_page  # noqa: E402
import built_links  # noqa: E402
import code_blocks  # noqa: E402
import example_report  # noqa: E402
import kept_runs  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    pages.write_pages(folder)
    reference.write_reference(folder)
    return folder


@pytest.mark.long("it builds the site with Sphinx")
def test_each_page_is_there_and_each_link_leads_to_one(source: Path) -> None:
    pages = {path.relative_to(source) for path in source.rglob("*.md")}
    pages = {page for page in pages if page.parts[0] != "_files"}  # these are shown as text
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


def test_each_block_of_code_is_of_the_language_that_it_names() -> None:
    """Sphinx ends the build for one that is not."""
    found = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages._found()}
    found["reference/names.md"] = reference._names()
    wrong = [f"{name}: {problem}" for name, text in found.items() for problem in code_blocks.problems(text)]
    assert wrong == []


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ('f(\n    a="x",\n    …\n)', "'…' is no python: mend the block, or name no language"),
        ("f(\n    a: type = <class 'list'>,\n)", '"\'" is no python'),
        ("f(a: int = 1) -> str", ""),
        ("x = 1", ""),
    ],
)
def test_a_block_that_sphinx_would_refuse_is_found(block: str, wrong: str) -> None:
    found = list(code_blocks.problems(f"# Heading\n\n```python\n{block}\n```\n\n```\n…\n```\n"))
    assert len(found) == bool(wrong)
    assert all(wrong in each for each in found)


def test_missed_optimisations_that_cases_declare_are_on_the_page() -> None:
    """The page comes from a run of these cases: `pytest --subset FILE --checks requirements`, then `missed`."""
    page = (ROOT / "docs" / "missed-optimisations.md").read_text(encoding="utf-8")
    default = [target for target in targets().values() if not target.variant_of]
    excused = known_failures.load(ROOT / "conformance" / "known_failures").failures
    no_code = {item[0] for failure in excused if failure.check == "compile" for item in failure.items()}
    for case in package_cases().cases:
        declared = {fact for target in default for fact in values_for(case.missed, case, target)} - {JUDGEMENT}
        if declared and case.id not in no_code:
            assert re.search(rf"{re.escape(case.id)}(,|$)", page, re.MULTILINE), case.id


def test_a_link_of_the_site_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a><a href="report.html#/changes">x</a>', "utf-8")
    (tmp_path / "b.html").write_text('<h1 id="there">x</h1><a href="https://example.org/x#y">x</a>', "utf-8")
    (tmp_path / "report.html").write_text("", "utf-8")
    assert list(built_links.problems(tmp_path)) == []
    (tmp_path / "c.html").write_text('<a href="b.html#gone">x</a><img src="gone.png">', "utf-8")
    wrong = list(built_links.problems(tmp_path))
    assert len(wrong) == 2
    assert "'b.html#gone' names nothing on that page" in wrong[0]
    assert "'gone.png' leads to no file of the site" in wrong[1]


def test_a_page_that_not_everyone_can_read_is_found(tmp_path: Path) -> None:
    pytest.importorskip("axe_playwright_python", reason="pip install -e '.[dev]'")
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("no Chromium is installed: apt-get install chromium, or google-chrome")
    page = '<html lang="en"><title>x</title><main><h1>x</h1>{}</main></html>'
    (tmp_path / "good.html").write_text(page.format("read"), "utf-8")
    (tmp_path / "index.html").write_text(page.format('<img src="data:,"><p style="width: 400px">wide</p>'), "utf-8")
    (tmp_path / "other.html").write_text(page.format('<img src="data:,">'), "utf-8")
    *wrong, in_light, in_dark = accessibility.problems(tmp_path)
    assert in_light.startswith("other.html: light, 390 px: image-alt: ")
    assert in_dark.startswith("other.html: dark, 1440 px: image-alt: ")
    assert [each.partition(": image-alt: ")[0] for each in wrong if "image-alt" in each] == [
        f"index.html: {scheme}, {width} px" for scheme in ("light", "dark") for width in (390, 1440)
    ]
    assert [each for each in wrong if "image-alt" not in each] == [
        f"index.html: {scheme}, 390 px: wider than the window" for scheme in ("light", "dark")
    ]


def test_the_kept_runs_are_of_several_torches_and_name_this_checkout(tmp_path: Path) -> None:
    runs = [Run(folder) for folder in kept_runs.unpack(tmp_path)]
    assert len({run.description()["torch"].partition("+")[0] for run in runs}) == len(runs) >= 2
    for run in runs:
        records = list(run.items())
        assert records
        for record in records:
            assert Path(record.file).is_relative_to(ROOT), record.name
            assert Path(record.store).is_dir(), record.name
            assert Path(record.known).is_dir(), record.name
    shown = {each.address.partition("#/case/")[2].partition("?")[0] for each in example_report.SCREENSHOTS}
    cases = {record.case for run in runs for record in run.items()}
    assert shown - {""} <= cases


def test_what_a_kept_run_changed_stays_when_its_code_is_accepted(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    store = Store(root / "code", ["cpu_avx2"])
    store.merge({"flip/h": {("2.13.0", "cpu_avx2"): "kernels  1\n"}})
    run = Run(tmp_path / "run")
    run.begin({"torch": "2.13.0", "triton": "", "targets": ["cpu_avx2"], "root": str(root)})
    checks = {"code": CheckResult(Outcome.FAILED, f"CodeError: see {root}/code")}
    for case in ("flip/h", "flip/v"):
        made = ItemRecord(case, "cpu_avx2", "native", "2.13.0", str(store.root), text="kernels  2\n", checks=checks)
        run.write_item(made)
    artifacts = run.artifacts("flip/h-cpu_avx2")
    (artifacts / "reproduce.py").write_text(f"# {root}/code", encoding="utf-8")
    (artifacts / "0_inference_graph.py").write_text("def forward(): ...", encoding="utf-8")
    (artifacts / "inputs.pt").write_bytes(b"large")
    assert kept_runs.keep(run.folder, tmp_path / "kept" / "some.tar.xz", lambda case: case == "flip/h") == 1
    store.merge({"flip/h": {("2.13.0", "cpu_avx2"): "kernels  2\n"}})
    folder = kept_runs.unpack(tmp_path / "unpacked", tmp_path / "kept")[0]
    record = Run(folder).item("flip/h", "cpu_avx2")
    assert record is not None
    assert record.checks["code"].detail == "CodeError: see /checkout/code"
    assert Run(folder).item("flip/v", "cpu_avx2") is None
    kept = folder / "failures" / "flip" / "h-cpu_avx2"
    assert {path.name for path in kept.iterdir()} == {"reproduce.py", "0_inference_graph.py"}
    assert (kept / "reproduce.py").read_text(encoding="utf-8") == "# /checkout/code"
    assert main(["report", str(folder), "-o", str(tmp_path / "report.html"), "--markdown", str(tmp_path / "r.md")]) == 0
    assert "| code changed | only names" in (tmp_path / "r.md").read_text(encoding="utf-8")


def test_known_bugs_are_a_page_like_that_of_a_report(tmp_path: Path) -> None:
    bugs_page.write_page(tmp_path)
    assert '<a href="known-bugs/index.html">The table of ' in (tmp_path / "known-bugs.md").read_text(encoding="utf-8")
    text = (tmp_path / "_extra" / "known-bugs" / "index.html").read_text(encoding="utf-8")
    assert 'id="data-section-known-bugs"' in text
