"""The distributions: what each holds, and what works with some of them and with all."""

from __future__ import annotations

import email.parser
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import wheels
from suites import REPOSITORY, SCALE, SM90, environment

import conformance

sys.path.insert(0, str(REPOSITORY / "ci"))
import project_page
import release

SUITE = (
    "conformance/coverage_maps/",
    "conformance/ops/",
    "conformance/expected_code/",
    "conformance/expected_binary/",
    "conformance/known_failures/",
    "conformance/models/",
    "conformance/sweep/",
    "conformance/docs/known-bugs.md",
    "conformance/docs/changes-",
    "conformance/docs/flip.md",
    "conformance/docs/kinds.md",
    "conformance/docs/missed-optimisations.md",
)
#: Bytes, unpacked: what an author of own cases installs. Snapshots alone would be ten times as much.
MOST = 4_000_000
MISSING = "pip install 'conformance[suite]'"


def files_of(wheel: Path) -> dict[str, int]:
    """Name → size of the files of a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as file:
        return {each.filename: each.file_size for each in file.infolist() if ".dist-info/" not in each.filename}


def names_of(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as file:
        return {each.name.partition("/")[2] for each in file.getmembers() if each.isfile()}


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as file:
        [name] = [each for each in file.namelist() if each.endswith(".dist-info/METADATA")]
        return email.parser.Parser().parsestr(file.read(name).decode())


@pytest.mark.long("it builds both wheels from a clean checkout and installs them")
def test_author_of_own_cases_installs_less_than_4_mb(distributions):
    assert sum(sum(files_of(wheel).values()) for wheel in distributions.parts) < MOST


@pytest.mark.long("it builds both wheels from a clean checkout and installs them")
def test_wheels_share_no_file_and_have_all(distributions):
    all_parts = [name for wheel in distributions.parts for name in files_of(wheel)]
    harness, suite = set(all_parts), files_of(distributions.suite)
    assert len(all_parts) == len(harness)
    assert not harness & set(suite)
    assert not [name for name in harness if name.startswith(SUITE)]
    assert {"conformance/py.typed", "conformance/plugin.py", "conformance/devices/targets.toml"} <= harness
    pages = {f"conformance/{name}" for name in distributions.sources if re.match(r"docs/[^/]*\.md$", name)}
    package = {name for name in distributions.sources if name.startswith("conformance/")} | pages
    assert set(suite) == {name for name in package if name.startswith(SUITE)}
    beside = {f"conformance/docs/{name}" for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    upstream = {name for name in harness if name.startswith("conformance/docs/upstream/")}
    assert harness - beside - upstream == package - set(suite)


@pytest.mark.long("it builds both wheels from a clean checkout and installs them")
def test_sdist_is_the_whole_repository(distributions):
    assert distributions.sources - names_of(distributions.harness_sdist) == set()


def test_sdist_of_the_suite_has_what_its_build_reads(distributions):
    """Its wheel was built from it, in a folder without the checkout: see wheels.build."""
    names = names_of(distributions.suite_sdist)
    own = {f"suite/{name}" for name in ("backend.py", "pyproject.toml", "setup.py", "README.md", "MANIFEST.in")}
    assert {name.removeprefix("suite/") for name in own} | {"LICENSE"} <= names
    assert {name for name in names if name.startswith("conformance/") and not name.startswith(SUITE)} == {
        "conformance/__init__.py"
    }


def test_build_warns_of_nothing_that_matters(distributions):
    lines = [line for line in distributions.log.splitlines() if re.search(r"\b[Ww]arning", line)]
    known = ("byte-compiling is disabled", "no previously-included", "no directories found matching")
    assert [line for line in lines if not any(each in line for each in known)] == []


def test_metadata(distributions):
    harness, suite = metadata_of(distributions.harness), metadata_of(distributions.suite)
    assert harness["Version"] == suite["Version"] == conformance.__version__
    assert suite.get_all("Requires-Dist") == [f"conformance=={conformance.__version__}"]
    assert 'conformance-suite; extra == "suite"' in harness.get_all("Requires-Dist")
    for metadata in (harness, suite):
        classifiers = metadata.get_all("Classifier")
        for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
            assert f"Programming Language :: Python :: {version}" in classifiers
        page = metadata.get_payload()
        relative = [target for target in re.findall(r"\]\(([^)\s]+)\)", page) if not re.match(r"https?://|#", target)]
        assert relative == []


def test_links_of_the_page_lead_to_the_repository(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("[a](a.md#b) ![c](docs/c.png) [d](https://e.f/g) [h](#i)")
    assert project_page.description(page, "https://x.y/z") == (
        "[a](https://x.y/z/blob/main/a.md#b) ![c](https://x.y/z/raw/main/docs/c.png) [d](https://e.f/g) [h](#i)"
    )
    assert project_page.description(page, "") == "a c [d](https://e.f/g) h"
    assert project_page.urls("") == {}
    assert {"Homepage", "Source", "Issues", "Changelog", "Documentation"} == set(project_page.urls("https://x.y/z"))


@pytest.fixture(scope="module")
def venv(tmp_path_factory, distributions):
    """A virtual environment with all parts and no cases."""
    made = wheels.new_venv(tmp_path_factory.mktemp("venv"))
    made.install(*distributions.parts)
    return made


@pytest.fixture(scope="module")
def alone(tmp_path_factory, distributions):
    """A virtual environment with the suite and the generator, without lab and page."""
    made = wheels.new_venv(tmp_path_factory.mktemp("alone"))
    made.install(distributions.harness, distributions.generator)
    return made


def ran(venv, folder, *words, **extra):
    env = environment({"PYTHONPATH": None} | extra)
    result = subprocess.run(
        [venv.python, "-m", *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    return result.returncode, result.stdout


@pytest.mark.long("it builds both wheels from a clean checkout and installs them")
@pytest.mark.parametrize(
    "words",
    [
        ("conformance", "list"),
        ("conformance", "list", "--package"),
        ("conformance", "show", "flip/hflip-224-u8-contiguous", "--target", "cpu_avx2"),
        ("conformance", "list", "--bugs"),
        ("conformance", "compare", "2.11", "2.13"),
        ("conformance", "docs", "known-bugs"),
        ("pytest", "--pyargs", "conformance.ops", "--quick"),
        ("pytest", "--pyargs", "conformance.ops.test_flip", "--target", "cpu_avx2"),
        ("pytest", "conformance/ops", "--device", "cpu"),
    ],
    ids=" ".join,
)
def test_without_the_suite_one_sentence_says_how_to_install_it(tmp_path, venv, words):
    status, text = ran(venv, tmp_path, *words)
    assert status not in (0, 1), text
    assert text.count(MISSING) == 1, text
    assert "Traceback" not in text


def test_release_needs_tag_changelog_and_address(tmp_path):
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance/__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0\n")
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/watch.added.md").write_text("Watch.\n")
    (tmp_path / "pyproject.toml").write_text('[tool.conformance]\nrepository = ""\n')
    tag, changelog, fragments, address = release.problems(tmp_path, "v0.1.0")
    assert tag == "the tag is v0.1.0, and conformance.__version__ is 0.2.0: the tag has to be v0.2.0"
    assert changelog.startswith("CHANGELOG.md has no heading '## 0.2.0'")
    assert address.startswith("pyproject.toml names no repository")
    assert fragments.startswith("changes/ has watch.added.md: move them to CHANGELOG.md")
    (tmp_path / "changes/watch.added.md").unlink()
    (tmp_path / "CHANGELOG.md").write_text("## 0.2.0 – 2026-12-01\n\n## 0.1.0\n")
    (tmp_path / "pyproject.toml").write_text('[tool.conformance]\nrepository = "https://x.y/z/"\n')
    assert list(release.problems(tmp_path, "v0.2.0")) == []


def test_release_tries_the_oldest_and_newest_torch_of_the_table():
    """release.yml is written by hand; tox.ini has the versions that go together."""
    text = (REPOSITORY / ".github/workflows/release.yml").read_text()
    table = (REPOSITORY / "tox.ini").read_text()
    pairs = re.findall(r'torch: "([\d.]+)", triton: "([\d.]+)"', text)
    assert len(pairs) == 2
    for torch, triton in pairs:
        minor = torch.rpartition(".")[0]
        assert f"torch{minor}: torch=={torch}\n" in table
        assert f"torch{minor}-!xpu: triton=={triton}\n" in table


@pytest.mark.long("it builds both wheels from a clean checkout and installs them")
def test_commands_without_the_suite_work_for_own_cases(tmp_path, venv):
    (tmp_path / "test_scale.py").write_text(SCALE)
    listed = "scale/double-f32  test_scale.py\nscale/double-f16  test_scale.py\n"
    assert ran(venv, tmp_path, "conformance", "list", "test_scale.py") == (0, listed)
    status, text = ran(venv, tmp_path, "conformance", "show", "test_scale.py::scale/double-f32", *SM90)
    assert status == 0, text
    assert "kernels" in text
    status, text = ran(venv, tmp_path, "pytest", "-p", "conformance.plugin", "--quick", "--collect-only", "-q")
    assert status == 0, text


@pytest.mark.long("it builds all wheels from a clean checkout and installs them")
@pytest.mark.parametrize(
    ("words", "distribution"),
    [
        (("conformance", "minimise", "test_scale.py::scale/double-f32"), "minimise is in conformance-lab"),
        (("conformance", "report"), "report is in conformance-page"),
        (("conformance", "show", "test_scale.py::scale/double-f32", *SM90, "--html"), "--html is in conformance-page"),
        (("pytest", "--conformance-explore", "1"), "--explore is in conformance-lab"),
        (("pytest", "--conformance-report", "r.html"), "--report is in conformance-page"),
    ],
    ids=" ".join,
)
def test_a_part_that_is_not_installed_is_named(tmp_path, alone, words, distribution):
    (tmp_path / "test_scale.py").write_text(SCALE)
    status, text = ran(alone, tmp_path, *words)
    assert status in (2, 4), text
    assert f"{distribution}: pip install {distribution.partition(' is in ')[2]}\n" in text
    assert "Traceback" not in text


@pytest.mark.long("it builds all wheels from a clean checkout and installs them")
def test_the_suite_without_lab_and_page_runs_cases(tmp_path, alone):
    (tmp_path / "test_scale.py").write_text(SCALE)
    selected = ("--target", "cpu_avx2", "-k", "f32", "--checks", "numerics,requirements")
    status, text = ran(alone, tmp_path, "pytest", "-p", "conformance.plugin", *selected)
    assert (status, "1 item = 1 passed" in text) == (0, True), text


GENERATED = """
import torch, conformance, sys
found = conformance.generate(torch.sin, torch.ones(20), device="cpu_avx2")
print(found.facts.value("kernels"), found.run().sum().item())
assert not [name for name in sys.modules if name.partition(".")[0] in ("pytest", "_pytest", "rich", "xdist")]
conformance.case
"""


@pytest.mark.long("it builds all wheels from a clean checkout and installs them")
def test_the_generator_alone(tmp_path, tmp_path_factory, distributions):
    venv = wheels.new_venv(tmp_path_factory.mktemp("generator"))
    venv.install(distributions.generator)
    (tmp_path / "generated.py").write_text(GENERATED)
    status, text = ran(venv, tmp_path, "generated")
    assert status == 1
    assert "1 16.82" in text
    assert "MissingDistributionError: conformance.case is in conformance: pip install conformance\n" in text
    status, text = ran(venv, tmp_path, "conformance", "list")
    assert (status, text) == (2, "error: the commands are in conformance: pip install conformance\n")


@pytest.mark.long("it builds both wheels from a clean checkout and installs them")
def test_with_the_suite_and_after_uninstalling_either(tmp_path, tmp_path_factory, distributions):
    both = wheels.new_venv(tmp_path_factory.mktemp("both"))
    suite = wheels.thinned(distributions.suite, tmp_path / "thinned")
    both.install(*distributions.parts, suite)
    status, text = ran(both, tmp_path, "conformance", "list", "hflip-224-u8-contiguous")
    assert (status, text.split()[0]) == (0, "flip/hflip-224-u8-contiguous")
    words = ("--pyargs", "conformance.ops.test_flip", "--target", "cuda_sm90", "-k", "hflip and 224-u8-contiguous")
    status, text = ran(both, tmp_path, "pytest", "-p", "conformance.plugin", *words, "--checks", "code")
    assert status == 0, text
    assert "1 item" in text
    [package] = (both.folder / "lib").glob("python*/site-packages/conformance")
    original = shutil.copytree(package, tmp_path / "elsewhere" / "conformance")
    both.pip("uninstall", "-y", "conformance-suite")
    status, text = ran(both, tmp_path, "conformance", "list", "--package")
    assert status == 2, text
    assert MISSING in text
    both.install(suite)
    parts = [each.name.partition("-")[0].replace("_", "-") for each in distributions.parts]
    both.pip("uninstall", "-y", *parts)
    left = {path.relative_to(package) for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    names = {Path(name).relative_to("conformance") for name in files_of(suite)}
    assert left == names
    assert all((package / name).read_bytes() == (original / name).read_bytes() for name in list(names)[:50])
