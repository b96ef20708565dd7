"""Branches that accepted code: git merges different cases. A conflict is refused with the commands that solve it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from conformance.storage.snapshots import SnapshotError, Store

IDENTITY = ["-c", "user.name=me", "-c", "user.email=me@example.org"]


@pytest.fixture
def git(tmp_path):
    def run(*arguments, status=0):
        done = subprocess.run(
            ["git", *IDENTITY, *arguments],
            cwd=tmp_path,
            env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    run("init", "-q", "-b", "main")
    return run


def text(function, facts="kernels     1: flip"):
    return (
        f"{facts}\n\n--- inference\n# kernel cpp_fused_{function}_0\nvoid kernel()\n\ndef call(args):\n    return 1\n"
    )


@pytest.fixture
def store(tmp_path, git):
    store = Store(tmp_path / "ops/expected_code", ["cpu_avx2", "cuda_sm90"])
    for case in ("flip/hflip-f32", "flip/vflip-f32"):
        store.merge({case: dict.fromkeys([("2.13", "cpu_avx2"), ("2.13", "cuda_sm90")], text("flip"))})
    git("add", "-A")
    git("commit", "-qm", "first")
    return store


def branch(git, store, name, updates):
    git("checkout", "-qb", name, "main")
    store.merge(updates)
    git("add", "-A")
    git("commit", "-qm", name)


def test_different_cases_merge(git, store):
    new = {"flip/hflip-f32": {("2.13", "cuda_sm90"): text("mine")}, "flip/new": {("2.13", "cpu_avx2"): text("new")}}
    other = {"flip/vflip-f32": {("2.15", "cpu_avx2"): text("flip")}, "flip/newer": {("2.13", "cpu_avx2"): text("new")}}
    branch(git, store, "mine", new)
    branch(git, store, "theirs", other)
    git("merge", "-q", "--no-edit", "mine")
    for case, texts in (new | other).items():
        for key, wanted in texts.items():
            assert store.read(case).text(*key) == wanted


def test_a_conflict_is_mended_by_what_the_message_says(git, store, tmp_path, monkeypatch):
    (tmp_path / "ops/test_flip.py").touch()
    key = ("2.13", "cpu_avx2")
    branch(git, store, "mine", {"flip/hflip-f32": {key: text("mine")}})
    branch(git, store, "theirs", {"flip/hflip-f32": {key: text("theirs")}})
    git("merge", "-q", "--no-edit", "mine", status=1)
    with pytest.raises(SnapshotError, match="unresolved merge conflict") as caught:
        store.read("flip/hflip-f32")
    commands = str(caught.value).splitlines()[-1]
    restore, accept = re.fullmatch(r"  git (.*) && EXPECTTEST_ACCEPT=1 pytest (.*)", commands).groups()
    assert accept == f"{tmp_path}/ops/test_flip.py -k 'test_hflip[f32-'"
    git(*restore.split())
    assert store.read("flip/hflip-f32").text(*key) == text("theirs")
    assert store.merge({"flip/hflip-f32": {key: text("mine")}}).changed == 1


def test_both_sides_of_a_conflict_kept_are_refused(store):
    path = store.path("flip/hflip-f32")
    content = path.read_text()
    path.write_text(content + "\n" + content.replace("void", "int"))
    with pytest.raises(SnapshotError, match=r"torch 2\.13 has two texts for cpu_avx2; keep one of them"):
        store.read("flip/hflip-f32")
    path.write_text(content + "\n" + content[content.index("--- ") :].join(["== torch 2.13: cpu_avx2\n", ""]))
    with pytest.raises(SnapshotError, match=r"has two texts for cpu_avx2 \(--- inference\); keep one of them"):
        store.read("flip/hflip-f32")
