#!/usr/bin/env python3
"""Opens a pull request that stores what runs generated: `python ci/accepted.py ARTIFACTS -o review --dry-run`.

ARTIFACTS is a folder with what each job left below .conformance/, or a run. In the git repository of the current folder
the script

1. makes the report of the runs, which compares them with what is stored now, and review.md, the text of the request,
2. stores what the runs generated, as `python -m conformance accept` does,
3. commits it on a branch, and leaves the branch that you are on as it is,
4. pushes the branch, and opens a pull request, or changes the text of the open one. With --dry-run it prints these
   commands instead.

Where nothing differs, it makes no branch. It refuses to begin with uncommitted changes.
Exit status 1: something was not stored or cannot be read; 2: nothing was done.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import job_runs
import review_text

from conformance.cli.main import main as conformance
from conformance.errors import ConformanceError
from conformance.words import pluralise

SUBJECT = "Store the generated code of the last runs"


class AcceptedError(ConformanceError):
    """A repository in which nothing can be committed, or a command that failed."""


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("artifacts", type=Path, nargs="+", help="a folder with the artifacts of each job, or a run")
    words.add_argument("-o", "--output", type=Path, default=Path("review"), help="a new folder, for the report; review")
    words.add_argument("--branch", default="accepted-code", help="the branch to write; default: accepted-code")
    words.add_argument("--base", default="main", help="the branch that the request is for; default: main")
    words.add_argument("--link", default="", metavar="URL", help="where the report can be read")
    words.add_argument("--dry-run", action="store_true", help="make the branch, push and open nothing")
    options = words.parse_args()
    try:
        return run(options)
    except ConformanceError as error:
        print(f"accepted.py: {error}", file=sys.stderr)
        return 2


def run(options: argparse.Namespace) -> int:
    """Returns the exit status. Raises AcceptedError, and errors of the runs."""
    repository = Repository(options.output, options.artifacts)
    repository.refuse_changes(options.branch)
    found = job_runs.find(options.artifacts)
    if not found.runs:
        raise AcceptedError(f"there is no run to accept: {'; '.join(found.problems) or 'the folders hold none'}")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AcceptedError(f"the folder {options.output} cannot be written to: {error.strerror}") from error
    status = int(bool(found.problems))
    with tempfile.TemporaryDirectory() as folder, repository.clean_after_errors():
        placed = job_runs.placed_here(found.runs, repository.root, Path(folder))
        text = review_text.read(placed, found.problems, options.link)
        page = options.output / "index.html"
        if failed := conformance(["report", *map(str, placed), "-o", str(page), "--title", SUBJECT]):
            return failed
        for place in placed:
            accepted = conformance(["accept", str(place)])
            if accepted not in (0, 1):
                raise AcceptedError(f"{place.name} was not accepted, and the others are taken back")
            status |= accepted
        changed = repository.changed()
        review = options.output / "review.md"
        review.write_text(review_text.render(text, len(changed)), encoding="utf-8")
        if not changed:
            print("nothing differs from what is stored: no branch, no pull request")
            return status
        repository.commit(options.branch, changed)
    print(f"branch {options.branch}: {pluralise(len(changed), 'file')}; the text of the request is in {review}")
    _open(repository, options, review)
    return status


class Repository:
    """The git repository of the current folder. `own`: folders of this script, whose files count as no changes."""

    def __init__(self, *own: Path | Sequence[Path]) -> None:
        self.root = Path(_call(["git", "rev-parse", "--show-toplevel"])).resolve()
        self._own = [path.resolve() for each in own for path in ([each] if isinstance(each, Path) else each)]

    def git(self, *words: str) -> str:
        """Returns what a command of git prints. Raises AcceptedError if it fails."""
        return _call(["git", "-C", str(self.root), *words])

    def changed(self) -> list[str]:
        """The files that differ from the last commit, new ones too."""
        listed = self.git("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
        names = [entry[3:] for entry in listed.split("\0") if entry]
        return [name for name in names if not any((self.root / name).is_relative_to(folder) for folder in self._own)]

    def refuse_changes(self, branch: str) -> None:
        """Raises AcceptedError if something could be lost: an uncommitted change, or a commit on the branch."""
        if changed := self.changed():
            some = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
            raise AcceptedError(f"{self.root} has uncommitted changes ({some}): commit or stash them first")
        if self.git("branch", "--show-current") == branch:
            raise AcceptedError(f"you are on the branch {branch}, which this script writes anew: switch to another one")
        if self.git("branch", "--list", branch):
            self.refuse_others(branch, branch)

    def refuse_others(self, branch: str, tip: str) -> None:
        """Raises AcceptedError if a commit of the branch was made by someone else."""
        if others := [each for each in self.git("log", "--format=%s", f"HEAD..{tip}").splitlines() if each != SUBJECT]:
            raise AcceptedError(
                f"the branch {branch} has a commit that this script did not make ({others[0]!r}): "
                "merge or rename the branch, or give another --branch"
            )

    @contextmanager
    def clean_after_errors(self) -> Iterator[None]:
        """Takes back what was written if the block raises: there was no uncommitted change before."""
        try:
            yield
        except BaseException:
            self.git("reset", "--quiet", "--hard")
            for name in self.changed():
                (self.root / name).unlink()
            raise

    def commit(self, branch: str, changed: Sequence[str]) -> None:
        """Commits the files on the branch, which begins at the current commit, and switches back."""
        self.git("checkout", "--quiet", "-B", branch)
        try:
            self.git("add", "--", *changed)
            self.git("commit", "--quiet", "-m", SUBJECT, "-m", "Written by ci/accepted.py from runs of the suite.")
        except AcceptedError:
            self.git("reset", "--quiet", "--hard")
            raise
        finally:
            self.git("checkout", "--quiet", "-")


def _open(repository: Repository, options: argparse.Namespace, review: Path) -> None:
    """Pushes the branch, and opens a pull request or changes the text of the open one; with --dry-run prints how."""
    branch, body = options.branch, ["--body-file", str(review)]
    push = ["git", "push", "--force", "origin", f"{branch}:{branch}"]
    create = ["gh", "pr", "create", "--head", branch, "--base", options.base, "--title", SUBJECT, *body]
    edit = ["gh", "pr", "edit", branch, *body]
    if options.dry_run:
        print(f"with --dry-run nothing is pushed. Else it would run:\n  {shlex.join(push)}\n  {shlex.join(create)}")
        print(f"or, where the request is open already:\n  {shlex.join(edit)}")
        return
    if repository.git("ls-remote", "--heads", "origin", branch):
        repository.git("fetch", "--quiet", "origin", branch)
        repository.refuse_others(branch, "FETCH_HEAD")
    _call(push)
    listed = _call(["gh", "pr", "list", "--head", branch, "--state", "open", "--json", "number"])
    print(_call(edit if json.loads(listed) else create))


def _call(command: list[str]) -> str:
    """Returns what a command prints. Raises AcceptedError if it fails, or if it is not installed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise AcceptedError(f"{command[0]} is not installed, and `{shlex.join(command)}` needs it") from error
    if done.returncode:
        raise AcceptedError(f"`{shlex.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout.removesuffix("\n")


if __name__ == "__main__":
    sys.exit(main())
