"""`explore` with a real bug: compiled channel_shuffle loses the layout channels_last. No program needs C++."""

from __future__ import annotations

import pytest
from suites import NATIVE, run_python

CASES = """
from conformance import case, tensor

@case(x=tensor(20), grad=True)
def test_double(x):
    return x * 2

@case(x=tensor(2, 8, 6, 10, layout="channels_last"))
def test_shuffle(x):
    import torch
    return torch.nn.functional.channel_shuffle(x, 2)
"""


def explore(folder, *words):
    return run_python("-m", "conformance", "explore", *words, folder=folder)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops/test_mine.py").write_text(CASES)
    (tmp_path / "conftest.py").write_text("")
    return tmp_path


@pytest.mark.long("it explores random programs until it has found and minimised a bug")
@pytest.mark.skipif(not NATIVE, reason="this machine runs no CPU target")
def test_a_bug_of_torch(project):
    ran = explore(project, "ops", "--target", NATIVE, "--minutes", "1.5")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"# programs of 2 cases on {NATIVE}" in ran.stdout
    assert "finding, shown by torch alone:" in ran.stdout
    assert "decomposition of aten.channel_shuffle.default" in ran.stdout
    (script,) = project.glob(".conformance/explored/0/channel-shuffle-*/script.py")
    assert "conformance" not in script.read_text()
    again = run_python("-m", "pytest", "ops", "--target", NATIVE, "--explore", "0.01", "-n", "2", folder=project)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "channel-shuffle" in again.stdout  # the finding of the first search: it goes on
    assert "2 deselected" in again.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--minutes", "0"], "--minutes and --jobs must be above 0"),
        (["--target", "cpu_avx"], "unknown target 'cpu_avx': add --target {"),
        (["nowhere", "--target", "cuda_sm90"], "no case matches 'nowhere'"),
    ],
)
def test_wrong_words(project, words, says):
    ran = explore(project, *words)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert says in ran.stderr
    assert not (project / ".conformance/explored").exists()


@pytest.mark.parametrize(
    ("words", "says", "status"),
    [
        (["--explore", "0"], "--explore 0: give minutes above 0", 4),
        (["--explore", "1", "--baseline", "last"], "--explore runs no item, so --baseline has no meaning", 4),
        (["--explore", "1", "-k", "nothing"], "-k 'nothing' selects no item", 5),
        (["--explore", "1", "-k", "double", "--target", "cpu_avx"], "unknown target", 4),
    ],
)
def test_wrong_words_of_pytest(project, words, says, status):
    ran = run_python("-m", "pytest", "ops", *words, folder=project)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert says in ran.stdout + ran.stderr
    assert not (project / ".conformance/explored").exists()
