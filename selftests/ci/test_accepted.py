"""ci/accepted.py: a pull request with the code that runs generated, and what its text says first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.review.causes import Cause, ChangedText, Example
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Store

ROOT = Path(__file__).parents[2]
TARGET, TORCH = "cuda_sm90", "2.13.0"
CODE = "\n--- inference\n# kernel triton_0\n@triton.jit\ndef triton_0(in_ptr0):\n    tmp0 = tl.load(in_ptr0)\n"
STORED, NEW = f"kernels  1: mul\n{CODE}", f"kernels  2: mul, add\n{CODE}    tmp1 = tmp0 + 1\n"
PASSED, CHANGED = CheckResult(Outcome.PASSED), CheckResult(Outcome.FAILED, "CodeError: facts changed")
WRONG = CheckResult(Outcome.FAILED, "NumericsError: 1 of 12 elements differ <b>")
CASES = ("loss/mse", "loss/l1", "loss/huber")
#: Stands for GitHub's command: writes what it is called with, and says that no request is open.
GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$GH_CALLS"
[ "$2" = list ] && echo "${GH_OPEN:-[]}" || echo https://example.org/pull/1
"""


class Repository:
    """A git repository with three cases, and what is stored for two of them. `run` writes artifacts of a job."""

    def __init__(self, root: Path) -> None:
        self.root, self.artifacts = root / "checkout", root / "artifacts"
        (self.root / "tests").mkdir(parents=True)
        (self.root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        self.file = self.root / "tests" / "test_loss.py"
        functions = "".join(f"def test_{case.partition('/')[2]}(x):\n    return x\n\n\n" for case in CASES)
        self.file.write_text(functions, encoding="utf-8")
        self.store = Store(self.root / "tests" / "expected_code", [TARGET])
        self.store.merge({case: {(TORCH, TARGET): STORED} for case in CASES[:2]})
        subprocess.run(["git", "init", "--quiet", "--bare", root / "origin.git"], check=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("remote", "add", "origin", str(root / "origin.git"))
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "Begin")
        commands = root / "bin"
        commands.mkdir()
        (commands / "gh").write_text(GH, encoding="utf-8")
        (commands / "gh").chmod(0o755)
        self.calls = root / "calls.txt"

    def environment(self, **further: str) -> dict[str, str]:
        names = {f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        path = f"{self.calls.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return os.environ | names | {"PATH": path, "GH_CALLS": str(self.calls), "CI": "true"} | further

    def git(self, *words: str) -> str:
        command = ["git", "-C", self.root, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment_of_git())
        return done.stdout.strip()

    def environment_of_git(self) -> dict[str, str]:
        names = {f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return os.environ | names

    def run(self, *records: ItemRecord, job: str = "cpu") -> None:
        run = Run(self.artifacts / job / "runs" / "20261101T000000-1")
        run.begin({"torch": TORCH, "triton": "", "targets": [TARGET], "root": str(self.root)})
        for each in records:
            run.write_item(each)

    def record(self, case: str, text: str, **checks: CheckResult) -> ItemRecord:
        store, file = str(self.store.root), str(self.file)
        return ItemRecord(case, TARGET, "deviceless", TORCH, store, text=text, file=file, checks=checks)

    def accepted(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, ROOT / "ci" / "accepted.py", self.artifacts, *words]
        settings = self.environment(**environment)
        return subprocess.run(command, cwd=self.root, env=settings, capture_output=True, text=True, check=False)

    def state(self) -> tuple[str, str, str]:
        return self.git("branch", "--list"), self.git("status", "--porcelain"), self.git("log", "--oneline", "--all")

    @property
    def review(self) -> str:
        return (self.root / "review" / "review.md").read_text(encoding="utf-8")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_dry_run_makes_the_branch_and_says_what_it_would_open(repository: Repository) -> None:
    repository.run(repository.record("loss/mse", NEW, numerics=PASSED, code=CHANGED))
    done = repository.accepted("--dry-run", "--link", "https://example.org/run")
    assert done.returncode == 0, done.stderr
    assert "gh pr create --head accepted-code --base main" in done.stdout
    assert not repository.calls.exists()
    assert repository.git("branch", "--show-current") == "main"
    assert repository.git("status", "--porcelain") == "?? review/"
    assert repository.git("diff", "--name-only", "main", "accepted-code") == "tests/expected_code/loss/mse.txt"
    assert "tmp1 = tmp0 + 1" in repository.git("show", "accepted-code:tests/expected_code/loss/mse.txt")
    assert "Changes, grouped by cause: 1 cause" in repository.review
    assert "   +    tmp1 = tmp0 + 1\n" in repository.review
    assert "[The report](https://example.org/run)" in repository.review
    assert (repository.root / "review" / "index.html").exists()
    assert repository.accepted("--dry-run").returncode == 0, "a second time, it writes its own branch anew"


def test_failures_that_accepting_does_not_mend_come_first(repository: Repository) -> None:
    repository.run(
        repository.record("loss/mse", NEW, numerics=PASSED, code=CHANGED),
        repository.record("loss/l1", NEW, numerics=WRONG, code=CHANGED),
        repository.record("loss/huber", NEW, numerics=PASSED),
    )
    done = repository.accepted("--dry-run")
    assert done.returncode == 1, done.stderr
    assert f"not accepted: loss/l1-{TARGET}: its numerics fail" in done.stdout
    changed = repository.git("diff", "--name-only", "main", "accepted-code").splitlines()
    assert [Path(name).stem for name in changed] == ["huber", "mse"]
    headings = [line for line in repository.review.splitlines() if line.startswith("## ")]
    assert headings[0] == "## Storing code does not mend these: 1 item"
    assert headings[1].startswith("## Changes")
    assert headings[2] == "## Not stored before: 1 text"
    assert r"1 of 12 elements differ \<b\>" in repository.review


def test_where_nothing_differs_nothing_is_opened(repository: Repository) -> None:
    repository.run(repository.record("loss/mse", STORED, numerics=PASSED, code=PASSED))
    before = repository.state()
    done = repository.accepted()
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("nothing differs from what is stored: no branch, no pull request\n")
    assert repository.state()[::2] == before[::2]
    assert not repository.calls.exists()


def _uncommitted(repository: Repository) -> None:
    repository.file.write_text("def test_mse(x): ...\n", encoding="utf-8")


def _new_file(repository: Repository) -> None:
    (repository.root / "notes.txt").write_text("mine", encoding="utf-8")


def _commit_of_someone(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "accepted-code")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "By hand")
    repository.git("switch", "--quiet", "main")


def _on_the_branch(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "accepted-code")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (_uncommitted, "has uncommitted changes (tests/test_loss.py): commit or stash them first"),
        (_new_file, "has uncommitted changes (notes.txt): commit or stash them first"),
        (_commit_of_someone, "has a commit that this script did not make ('By hand')"),
        (_on_the_branch, "you are on the branch accepted-code"),
    ],
)
def test_it_refuses_to_begin_where_something_could_be_lost(
    repository: Repository, prepare: Callable[[Repository], None], message: str
) -> None:
    repository.run(repository.record("loss/mse", NEW, numerics=PASSED, code=CHANGED))
    prepare(repository)
    before = repository.state()
    done = repository.accepted("--dry-run")
    assert done.returncode == 2
    assert message in done.stderr
    assert repository.state() == before


def test_it_pushes_and_opens_one_request(repository: Repository) -> None:
    repository.run(repository.record("loss/mse", NEW, numerics=PASSED, code=CHANGED))
    assert repository.accepted().returncode == 0
    assert repository.accepted(GH_OPEN='[{"number": 1}]').returncode == 0
    assert [line.split()[1] for line in repository.calls.read_text().splitlines()] == ["list", "create", "list", "edit"]
    assert repository.git("ls-remote", "--heads", "origin", "accepted-code")


def test_the_text_fits_githubs_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "ci")
    import review_text

    changed = ChangedText("loss/mse", TARGET, STORED, NEW)
    example = Example(changed, "", ("+ 0123456789" * 20,) * 100)
    cause = Cause("1", "fact", "cause", [changed], 0, example)
    failure = {"item": "loss/mse-cuda_sm90", "torch": "2.13", "why": "w" * 300}
    text = review_text.ReviewText([], [], [failure] * 900, [cause] * 400, {}, "")
    rendered = review_text.render(text, 1)
    assert len(rendered) <= 65_536
    assert "## Storing code does not mend these: 900 items" in rendered
    assert "more causes: the report has them all" in rendered
    assert rendered.count("| loss") >= 20
