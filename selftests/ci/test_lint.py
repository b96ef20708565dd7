"""What lint adds to ruff and mypy: the direction of imports, the generated diagrams, links, and the list of names."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import conformance
from conformance.devices.torch_releases import RELEASES, TESTED, VERSIONS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "public-names.md"

needs_import_linter = pytest.mark.skipif(sys.version_info < (3, 11), reason="import-linter needs Python 3.11")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what lint reads, without stored code."""
    root = tmp_path_factory.mktemp("checkout")
    stored = shutil.ignore_patterns("__pycache__", "expected_code", "expected_binary")
    for folder in ("conformance", "ci", "docs", "selftests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=stored)
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "tox.ini"):
        shutil.copy(ROOT / file, root / file)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def run(root, *command):
    return subprocess.run(
        [sys.executable, *command], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.fixture
def planted(checkout):
    """Appends a line to a file of the copy, and takes it back after the test."""
    before = {}

    def plant(name, line):
        file = checkout / name
        before[file] = file.read_text()
        file.write_text(f"{before[file]}\n{line}\n")

    yield plant
    for file, text in before.items():
        file.write_text(text)


def lint_imports(root):
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    result = run(root, "-c", code, "--no-logo", "--no-cache")
    return result.returncode, " ".join((result.stdout + result.stderr).split())


@needs_import_linter
def test_imports_keep_all_contracts(checkout):
    status, text = lint_imports(checkout)
    assert status == 0, text
    assert " 0 broken." in text


@needs_import_linter
@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("capture/model.py", "from conformance.cases import inputs", "A room imports only rooms below it"),
        ("facts/calls.py", "def f():\n    from conformance import numerics", "A room imports only rooms below it"),
        (
            "capture/patching/patch.py",
            "from conformance.capture.deviceless import prepare",
            "The parts of capture know nothing of the compile",
        ),
        ("capture/emulation/memory.py", "from conformance.capture.toolchain import cpu_isa", "Observers stand alone"),
        ("ops/test_flip.py", "from conformance.cases import inputs", "Cases import only `conformance`"),
        ("harness/session.py", "from conformance.ops import test_flip", "No module imports cases"),
        ("atomic_files.py", "from conformance import terminal", "A room imports only rooms below it"),
    ],
)
def test_wrong_import_fails_with_the_reason(checkout, planted, file, line, reason):
    planted(f"conformance/{file}", line)
    status, text = lint_imports(checkout)
    assert status == 1, text
    assert reason in text.partition("Broken contracts")[2], text


@needs_import_linter
def test_every_room_is_closed_to_cases():
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    forbidden = {contract["id"]: set(contract.get("forbidden_modules", ())) for contract in contracts}
    modules = {
        f"conformance.{path.stem}"
        for path in (ROOT / "conformance").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    modules -= {"conformance.__init__", "conformance.__main__"}
    assert forbidden["ops-use-public-names"] == modules - {"conformance.models", "conformance.ops"}
    assert forbidden["sweep-makes-cases"] == modules - {
        "conformance.sweep",
        "conformance.cases",
        "conformance.containers",
        "conformance.errors",
    }


@needs_import_linter
def test_stale_diagram_is_shown_as_a_diff_and_not_written(checkout, planted):
    page = checkout / "docs" / "architecture.md"
    written = run(checkout, "ci/architecture.py")
    assert written.returncode == 0, written.stderr
    text = page.read_text()
    assert "\n    numerics --> cases\n" in text
    planted("conformance/numerics/check.py", "from conformance import normalize")
    stale = run(checkout, "ci/architecture.py", "--check")
    assert stale.returncode == 1, stale.stdout
    assert "\n+    numerics --> normalize\n" in stale.stdout
    assert "python ci/architecture.py" in stale.stderr
    assert page.read_text() == text


@needs_import_linter
def test_package_without_a_docstring(checkout, planted):
    file = checkout / "conformance" / "bench" / "__init__.py"
    planted(file.relative_to(checkout), "")
    file.write_text("")
    result = run(checkout, "ci/architecture.py", "--check")
    assert result.returncode == 1
    assert "conformance/bench/__init__.py has no docstring" in result.stderr


def test_links(checkout, planted):
    wrong = {
        "[numerics](no/where.md)": "README.md: the link 'no/where.md' leads to no file",
        "[a](docs/numerics.md#no-such)": "the link 'docs/numerics.md#no-such' names no heading of numerics.md",
        "[other](../other/README.md)": "leads out of the repository",
        "see conformance/gone.py": "README.md: names conformance/gone.py, and there is no such file",
    }
    right = "[a](docs/numerics.md#the-policy) [b](#conformance) [c](https://pytorch.org/none.md) `x.py`"
    planted("README.md", "\n".join([*wrong, right]))
    result = run(checkout, "ci/links.py")
    assert result.returncode == 1
    assert [problem for problem in wrong.values() if problem not in result.stdout] == []
    for name in ("docs/numerics.md#the-policy", "#conformance", "pytorch.org"):
        assert name not in result.stdout


def test_too_many_words_and_docstrings_without_their_noun(checkout, planted):
    planted("docs/numerics.md", "\n" + "word " * 91)
    planted("README.md", "\n- one\n- " + "word " * 91)
    planted("docs/overlay.md", "\n".join(["- word"] * 20_000))
    planted(
        "conformance/errors.py",
        'def f():\n    """Those of a file."""\n\n\ndef g():\n    """This is empty."""\n\n\n'
        'class A:\n    """It is gone.\n\n    More."""\n',
    )
    result = run(checkout, "ci/links.py")
    assert result.returncode == 1
    for problem in (
        "docs/numerics.md: 91 words, more than 90: word word",
        "README.md: 92 words, more than 90: - word",
        "the pages that people write have ",
        "begin the docstring with its noun: Those of a file.",
        "begin the docstring with its noun: This is empty.",
        "begin the docstring with its noun: It is gone.",
    ):
        assert problem in result.stdout


def test_words_that_are_not_counted(checkout, planted):
    planted("docs/known-bugs.md", "\n" + "word " * 50_000)
    code = "```\n" + "word " * 91 + "\n```"
    planted("docs/overlay.md", f"\n{code}\n\n| {'word ' * 91} |\n\n[{'word ' * 80}](a{'#' * 20})")
    planted("docs/vendor.md", f"\n<!-- table: written by x.py -->\n\n{'word ' * 50_000}\n\n<!-- end of table -->")
    planted("conformance/errors.py", 'def f():\n    """This file, and those of a folder."""')
    result = run(checkout, "ci/links.py")
    assert "more than" not in result.stdout
    assert "begin the docstring" not in result.stdout


def _section(heading):
    return PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_pages_have_what_docstrings_parsers_and_schemas_say():
    sys.path.insert(0, str(ROOT / "ci" / "documentation"))
    try:
        import written_parts
    finally:
        sys.path.remove(str(ROOT / "ci" / "documentation"))

    for name in written_parts.parts():
        page = (ROOT / "docs" / f"{name}.md").read_text()
        assert written_parts.filled(name, page) == page, "python ci/documentation/written_parts.py"
    text = PAGE.read_text()
    listed = re.findall(r"^\| `(\w+)` \|", _section("Names in `conformance`"), re.MULTILINE)
    assert listed == conformance.__all__
    assert "| `EDGE_SIZES` | Sizes at which" in text
    assert "| `--device LIST` | test targets of these" in _section("Options of pytest")
    assert "| `show` | show the facts" in _section("Commands")
    assert written_parts.filled("public-names", text.replace("| `show` |", "| `shown` |")) == text


def test_docstring_of_case_names_every_keyword():
    import inspect

    from conformance.cases.case import COMPILE_KEYWORDS

    keywords = {
        name
        for name, parameter in inspect.signature(conformance.case).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    text = _section("Keywords of `@case`")
    assert [name for name in sorted(keywords | set(COMPILE_KEYWORDS)) if f"`{name}`" not in text] == []


def test_other_files_name_the_torches_of_the_table():
    """tox.ini and the workflow of a release name the Triton that goes with each, too."""
    text = (ROOT / "tox.ini").read_text()
    versions = dict(re.findall(r"^ +(\S+): torch==(\d+\.\d+)", text, re.MULTILINE))
    tritons = re.findall(r"^ +(\S+)-!xpu: triton==(\S+)", text, re.MULTILINE)
    assert {versions[name]: triton for name, triton in tritons} == {each.name: each.triton for each in TESTED}
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    pairs = re.findall(r'torch: "(\d+\.\d+)\.\d+", triton: "(\S+)"', workflow)
    assert pairs == [(each.name, each.triton) for each in (TESTED[0], TESTED[-1])]
    torches = {each.name for each in TESTED}
    named = set(re.findall(r'^torch = "(.+)"', (ROOT / "ci" / "matrix.toml").read_text(), re.MULTILINE))
    assert named == {*torches, *VERSIONS}
    headers = {
        version
        for file in (ROOT / "conformance" / "expected_code" / "flip").glob("*.txt")
        for versions in re.findall(r"^== torch ([\d. ]+):", file.read_text(), re.MULTILINE)
        for version in versions.split()
    }
    assert headers == torches


def test_package_brings_a_torch_that_is_supported():
    """Pip takes the newest that is allowed. 2.8 is allowed for Intel's extension."""
    text = (ROOT / "parts" / "generator" / "requirements.txt").read_text()
    [allowed] = re.findall(r"^torch(>=2.+)$", text, re.MULTILINE)
    assert all(SpecifierSet(allowed).contains(version) for version in ("2.8.0", *VERSIONS))
    newest = RELEASES[-1].newest.split(".")
    too_new = [".".join([*newest[:2], str(int(newest[2]) + 1)]), f"{newest[0]}.{int(newest[1]) + 1}.0"]
    assert not any(SpecifierSet(allowed).contains(version) for version in ("2.7.1", "2.9.0", "2.10.0", *too_new))


def test_readme_says_which_torches_are_supported():
    assert f"install torch ({RELEASES[0].name} to {RELEASES[-1].name})" in (ROOT / "README.md").read_text()
