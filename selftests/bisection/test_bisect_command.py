"""`bisect` with the real torch: a repository of its Python files, with eight commits."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from repositories import Repository, git
from suites import empty_cache, run_python

from conformance.devices.environment import torch_build
from conformance.sources.torch_source import installed_files

CASE = "lambda x: -x"
WORDS = (CASE, "--input", "x=1000:f32", "--target", "cpu_avx2")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The Python files of the installed torch, and eight commits: the cause, and changes of what the case does
    not execute. So only the two ends are compiled, and the cause once more for its lines.
    """
    folder = tmp_path_factory.mktemp("bisect") / "pytorch"
    made, torch = Repository(folder), torch_build().folder
    for path in installed_files(torch):
        (folder / "torch" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(torch / path, folder / "torch" / path)
    made.commit("release", {})
    git(folder, "tag", "release")

    def edit(subject, path, old, new):
        text = (folder / "torch" / path).read_text()
        assert old in text
        made.commit(subject, {path: text.replace(old, new, 1)})

    edit("of gpus", "_inductor/codegen/triton.py", 'return f"tl.sigmoid({x})"', 'return f"sigmoid({x})"')
    edit("a comment", "_inductor/codegen/cpp.py", "class CppVecOverrides", "# vectors\nclass CppVecOverrides")
    edit("of templates", "_inductor/ir.py", "class TritonTemplateBuffer", "# templates\nclass TritonTemplateBuffer")
    edit(
        "of scans",
        "_inductor/lowering.py",
        "def cumsum(x, axis=None, dtype=None):",
        "def cumsum(x, axis=None, dtype=None):  # scans",
    )
    edit("cause", "_inductor/codegen/cpp.py", 'return f"{x}.neg()"', 'return f"({x} * -1)"')
    edit(
        "of norms",
        "_decomp/decompositions.py",
        "return self * torch.sigmoid(self)",
        "return torch.sigmoid(self) * self",
    )
    edit("of sums", "_inductor/lowering.py", 'fn = make_reduction("sum",', 'fn = make_reduction(r"sum",')
    edit("of other gpus", "_inductor/codegen/triton.py", 'return f"sigmoid({x})"', 'return f"tl.sigmoid({x})"')
    return made


def bisect(repository, *words, cache=None):
    env = {"CONFORMANCE_CACHE": str(cache)} if cache else {}
    return run_python("-m", "conformance", "bisect", *words, "--source", repository.folder, env=env)


@pytest.mark.long("it bisects real commits, with a process for each")
def test_the_commit_and_the_lines_that_the_case_executes(repository, tmp_path):
    ran = bisect(repository, *WORDS, "--good", "release", "--bad", "HEAD", cache=empty_cache(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{CASE}: the code changed with {repository.commits['cause']}\n" in ran.stdout
    assert "torch/_inductor/codegen/cpp.py: CppVecOverrides.neg\n" in ran.stdout
    assert any(line.startswith("  *") and "{x} * -1" in line for line in ran.stdout.splitlines())
    assert "+" in ran.stdout.partition("+++ after")[2]
    assert git(repository.folder, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*WORDS, "--good", "nope", "--bad", "HEAD"), "has no commit 'nope'"),
        ((*WORDS, "--good", "HEAD", "--bad", "HEAD"), "--good and --bad are the same commit"),
        ((*WORDS, "--good", "HEAD", "--bad", "release"), "swap them"),
        ((*WORDS, "--good", "release", "--bad", "HEAD", "--fact", "nope"), "--fact nope: unknown; known are kernels"),
        ((*WORDS, "--good", "release", "--bad", "HEAD", "--requirement"), "has no requirements"),
        (("flip/nope", "--target", "cpu_avx2", "--good", "release", "--bad", "HEAD"), "there is no case 'flip/nope'"),
        ((*WORDS[:3], "--target", "cpu_nope", "--good", "release", "--bad", "HEAD"), "unknown target 'cpu_nope'"),
        (("--target", "cpu_avx2", "--good", "release", "--bad", "HEAD"), "name the cases"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_compiled(repository, words, message, capsys):
    from conformance.cli.main import main

    assert main(["bisect", *words, "--source", str(repository.folder)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_folder_that_is_no_checkout(tmp_path, capsys):
    from conformance.cli.main import main

    assert main(["bisect", *WORDS, "--source", str(tmp_path), "--good", "a", "--bad", "b"]) == 2
    assert "has no torch/__init__.py" in capsys.readouterr().err


def test_the_script_for_git_bisect_run(repository, tmp_path, capsys):
    from conformance.cli.main import main

    ends = ("--good", "release", "--bad", "HEAD")
    assert main(["bisect", *WORDS, "--source", str(repository.folder), *ends, "--script"]) == 0
    script = capsys.readouterr().out
    assert f"--good {repository.commits['release']}" in script
    commit = git(repository.folder, "rev-parse", "HEAD")
    for judged, wanted in ((0, 0), (1, 1), (125, 125), (2, 255), (130, 255)):  # git ends its bisection at 128 or more
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\necho "$@"\nexit {judged}\n')
        python.chmod(0o755)
        made = script.replace(sys.executable, str(python))
        ran = subprocess.run(["sh"], input=made, text=True, check=False, capture_output=True)
        assert ran.returncode == wanted
        assert ran.stdout.rstrip().endswith(f"--judge {commit}")
