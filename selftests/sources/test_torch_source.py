"""Sources of PyTorch's Python files, and trees in which they are laid over an installed torch. No torch is imported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conformance.bisection import sides
from conformance.devices.environment import TorchBuild
from conformance.errors import ConformanceError
from conformance.settings import Overlay, Settings, SettingsError, refuse_accepting_source
from conformance.sources import laid_tree, source_fit
from conformance.sources.laid_tree import delete_unused, lay
from conformance.sources.torch_source import blob_id, installed_files, parse_source

INSTALLED = {
    "__init__.py": "from torch import a\n",
    "version.py": "__version__ = '1.0'\n",
    "a.py": "VALUE = 1\n",
    "gone.py": "",
    "same/__init__.py": "",
    "same/b.py": "VALUE = 2\n",
    "other/__init__.py": "",
    "other/c.py": "VALUE = 3\n",
    "other/d.py": "VALUE = 4\n",
    "lib/libtorch.so": "binary",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = folder / "torch" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def build(tmp_path):
    """An installed torch. Each test has a folder of its own, so the cached states of files are its own."""
    write(tmp_path / "site", INSTALLED)
    return TorchBuild("1.0", (), tmp_path / "site" / "torch")


@pytest.fixture
def checkout(tmp_path):
    """A repository with two commits: the second changes a file, adds a folder and removes a file. Its `a.py` is built
    in, and it has no built files.
    """
    folder = tmp_path / "checkout"
    built = ("version.py", "lib/libtorch.so")
    write(folder, {path: text for path, text in INSTALLED.items() if path not in built})
    git(tmp_path, "init", "-q", "checkout")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "the release")
    write(folder, {"other/c.py": "VALUE = 30\n", "new/deep/e.py": "VALUE = 5\n", "other/t.jinja": "template"})
    (folder / "torch" / "gone.py").unlink()
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a change")
    return folder


def tree_texts(folder: Path) -> dict[str, str]:
    texts = {}
    for path, _, names in os.walk(folder, followlinks=True):
        for name in names:
            if not path.endswith("__pycache__"):
                texts[str(Path(path, name).relative_to(folder))] = Path(path, name).read_text()
    return texts


def test_commit_is_laid_over_the_installed_torch(build, checkout):
    before = tree_texts(build.folder)
    tree = lay(parse_source(f"{checkout}@HEAD", "--torch-source"), build)
    assert sorted(tree.changed) == ["new/deep/e.py", "other/c.py", "other/t.jinja"]
    assert tree.removed == ("gone.py",)
    wanted = dict(INSTALLED) | {
        "other/c.py": "VALUE = 30\n",
        "new/deep/e.py": "VALUE = 5\n",
        "other/t.jinja": "template",
    }
    del wanted["gone.py"]
    assert tree_texts(tree.torch) == wanted
    assert tree_texts(build.folder) == before
    assert (tree.torch / "same").is_symlink()
    assert (tree.torch / "lib").is_symlink()


def test_a_commit_that_is_the_same_as_installed_has_no_differences(build, checkout):
    tree = lay(parse_source(f"{checkout}@HEAD~1", "--torch-source"), build)
    assert (tree.changed, tree.removed) == ((), ())


def test_files_that_are_not_committed(build, checkout):
    (checkout / "torch" / "a.py").write_text("VALUE = 10\n")
    source = parse_source(str(checkout), "--torch-source")
    assert source.to_json()["commit"] == git(checkout, "rev-parse", "HEAD") + "-dirty"
    assert "changes that are not committed" in source.name
    assert (lay(source, build).torch / "a.py").read_text() == "VALUE = 10\n"


def test_the_checkout_stays_as_it_is(build, checkout):
    (checkout / "torch" / "a.py").write_text("VALUE = 10\n")
    before = git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "HEAD")
    lay(parse_source(f"{checkout}@HEAD~1", "--torch-source"), build)
    assert (git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "HEAD")) == before


def test_a_tree_is_laid_once(build, checkout, monkeypatch):
    source = parse_source(f"{checkout}@HEAD", "--torch-source")
    first = lay(source, build)
    monkeypatch.setattr(laid_tree, "_Laying", None)  # a second laying would raise
    assert lay(source, build) == first


def test_another_edit_of_the_installed_torch_is_another_tree(build, checkout):
    source = parse_source(f"{checkout}@HEAD", "--torch-source")
    first = lay(source, build)
    (build.folder / "a.py").write_text("VALUE = 'edited'\n")
    installed_files.cache_clear()
    second = lay(source, build)
    assert second.folder != first.folder
    assert (second.torch / "a.py").read_text() == "VALUE = 1\n"


def test_python_never_writes_into_the_installed_torch(build, checkout):
    write(build.folder.parent, {"same/unused.py": ""})
    (build.folder / "__pycache__").mkdir()
    (build.folder / "__pycache__" / "a.cpython-311.pyc").write_text("compiled")
    (build.folder / "__pycache__" / "gone.cpython-311.pyc").write_text("compiled")
    tree = lay(parse_source(f"{checkout}@HEAD", "--torch-source"), build)
    compiled = tree.torch / "__pycache__"
    assert [file.name for file in compiled.iterdir()] == ["a.cpython-311.pyc"]
    assert not compiled.is_symlink()


def test_unused_trees_are_deleted_as_wholes(build, checkout, cache):
    old = lay(parse_source(f"{checkout}@HEAD", "--torch-source"), build)
    new = lay(parse_source(f"{checkout}@HEAD~1", "--torch-source"), build)
    os.utime(old.folder / "differences.json", (0, 0))
    assert delete_unused(cache / laid_tree.FOLDER) == 1
    assert (old.folder.exists(), new.folder.exists()) == (False, True)
    assert (build.folder / "same" / "b.py").exists()


def test_a_tree_that_cannot_be_imported_says_why_and_where(build, checkout):
    source = parse_source(f"{checkout}@HEAD", "--torch-source")
    assert source_fit.misfit(lay(source, build)) == ""
    write(checkout, {"a.py": "import torch\nVALUE = torch.no_such_name\n"})
    source = parse_source(str(checkout), "--torch-source")
    tree = lay(source, build)
    with pytest.raises(source_fit.MisfitError) as raised:
        source_fit.refuse_misfit(tree, source, build)
    said = str(raised.value)
    assert said.startswith(f"the Python files of {checkout} at ")
    assert "do not fit the binaries of torch 1.0: importing torch raises AttributeError" in said
    assert said.endswith("(torch/a.py, line 2)")
    (tree.torch / "a.py").write_text("VALUE = 1\n")
    assert source_fit.misfit(tree), "the answer is kept with the tree"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("{0}/missing", "there is no folder {0}/missing; name a checkout of PyTorch"),
        ("{0}", "{0} has no torch/__init__.py"),
        ("{0}/checkout@nope", "{0}/checkout has no commit 'nope'"),
        ("{0}/checkout@", "a commit has to follow the @"),
        ("{0}/site@HEAD", "{0}/site is not a git repository"),
        ("{0}/checkout@--all", "{0}/checkout has no commit '--all'"),
    ],
)
def test_wrong_sources(build, checkout, tmp_path, word, message):
    with pytest.raises(ConformanceError) as raised:
        parse_source(word.format(tmp_path), "--torch-source")
    assert message.format(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_ids_are_those_of_git(checkout):
    assert blob_id((checkout / "torch" / "a.py").read_bytes()) == git(checkout, "rev-parse", "HEAD:torch/a.py")


def test_code_of_a_source_is_accepted_only_into_a_folder_of_its_own():
    with pytest.raises(SettingsError, match="give it a folder of its own with --store DIR"):
        refuse_accepting_source(Settings(torch_source="/src", accept="all"))
    refuse_accepting_source(Settings(torch_source="/src", accept="all", overlay=Overlay(store="/mine")))
    refuse_accepting_source(Settings(torch_source="/src"))


def test_a_folder_of_python_files_alone_keeps_the_installed_data_files(build, tmp_path):
    write(build.folder.parent, {"other/t.jinja": "template", "other/u.json": "{}"})
    write(tmp_path / "mine", {path: text for path, text in INSTALLED.items() if path.endswith(".py")} | {"a.py": "new"})
    (tmp_path / "mine/torch/gone.py").unlink()
    tree = lay(parse_source(str(tmp_path / "mine"), "--torch-source"), build)
    assert (tree.changed, tree.removed) == (("a.py",), ("gone.py",))
    assert (tree.torch / "other/t.jinja").read_text() == "template"
    write(tmp_path / "mine", {"other/v.jinja": "another"})
    tree = lay(parse_source(str(tmp_path / "mine"), "--torch-source"), build)
    assert sorted(tree.removed) == ["gone.py", "other/t.jinja"], "a checkout has its templates"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("importing torch raises FileNotFoundError: [Errno 2] t.jinja", "are not complete: importing torch raises"),
        ("importing torch raises ModuleNotFoundError: No module named 'torch.a'", "are not complete: importing torch"),
        ("importing torch raises ModuleNotFoundError: No module named 'yaml'", "do not fit the binaries of torch 1.0"),
        ("importing torch raises ImportError: cannot import name 'x'", "do not fit the binaries of torch 1.0"),
    ],
)
def test_what_is_missing_is_not_blamed_on_the_binaries(build, checkout, monkeypatch, said, sentence):
    monkeypatch.setattr(source_fit, "misfit", lambda _: said)
    source = parse_source(str(checkout), "--torch-source")
    with pytest.raises(source_fit.MisfitError, match=sentence):
        source_fit.refuse_misfit(lay(source, build), source, build)


def test_a_copy_of_python_files_with_an_empty_lib_is_no_side_of_its_own(build, tmp_path, monkeypatch):
    monkeypatch.setattr(sides, "torch_build", lambda: build)
    write(tmp_path / "mine", {path: text for path, text in INSTALLED.items() if path.endswith(".py")} | {"a.py": "new"})
    (tmp_path / "mine/torch/lib").mkdir()
    side = sides.parse_side(str(tmp_path / "mine"), "--new")
    assert (side.build, side.text("a.py")) == (build, "new")
    write(tmp_path / "mine", {"lib/libtorch.so": "binary"})
    assert sides.parse_side(str(tmp_path / "mine"), "--new").build.folder == tmp_path / "mine/torch"
