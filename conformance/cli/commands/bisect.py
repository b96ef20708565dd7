"""`bisect`: which commit of PyTorch changed what is generated for a case."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.bisection.bisector import BisectError, Bisector, Cause
from conformance.bisection.history import History
from conformance.bisection.observation import Question
from conformance.bisection.observer import Observer
from conformance.cli.case_options import add_adhoc_options, adhoc_options
from conformance.cli.question_options import add_case_arguments, add_question_options, observer_of, question_of
from conformance.devices.environment import torch_build
from conformance.errors import ConformanceError
from conformance.review.diff import diff_lines
from conformance.sources import git_repository
from conformance.sources.laid_tree import lay
from conformance.sources.torch_source import parse_source
from conformance.terminal import diff_line, heading

DESCRIPTION = """\
Find the commit of PyTorch that changed what is generated for a case. The Python
files of a commit run with the installed binaries: nothing is built. Only
commits are tried that change what the case executes. The repository stays as it
is. Exit status 1: not found for each case."""

EXAMPLES = """\
examples:
  python -m conformance bisect flip/hflip-224-u8-contiguous --target cuda_sm90 \\
      --source ~/pytorch --good v2.13.0 --bad main
  python -m conformance bisect sum/mean-mean --target cpu_avx512 \\
      --source ~/pytorch --good v2.13.0 --bad main --fact vectorised"""

#: Exit statuses that `git bisect run` understands.
_AS_GOOD, _CHANGED, _SKIP, _ABORT = 0, 1, 125, 255


class BisectCommandError(ConformanceError, ValueError):
    """Options of `bisect` that are wrong or missing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s CASE... --source PATH --good A --bad B"
    add_case_arguments(parser)
    parser.add_argument("--source", required=True, metavar="REPOSITORY", help="a git checkout of PyTorch")
    parser.add_argument(
        "--good", required=True, metavar="COMMIT", help="an old commit: what it gives is the good answer"
    )
    parser.add_argument("--bad", required=True, metavar="COMMIT", help="a later commit that gives another answer")
    add_question_options(parser)
    parser.add_argument("--restart", action="store_true", help="measure again what an earlier call has measured")
    parser.add_argument(
        "--judge",
        metavar="COMMIT",
        help="only measure this commit: exit status 0 as --good, 1 changed, 125 does not fit",
    )
    parser.add_argument(
        "--script", action="store_true", help="print a script for `git bisect run`, and measure nothing"
    )
    add_adhoc_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if no commit was found for a case. Raises what History and Bisector raise; BisectCommandError,
    QuestionError, UnknownCaseError, TargetError, SourceError and GitError for wrong words.
    """
    question = question_of(arguments)
    observer = observer_of(arguments, question)
    source = parse_source(arguments.source, "--source")
    if source.commit:
        raise BisectCommandError(
            f"--source {arguments.source}: name the repository alone; --good and --bad are commits"
        )
    good, bad = (git_repository.commit_id(source.folder, word) for word in (arguments.good, arguments.bad))
    for name, commit in (("--good", good), ("--bad", bad)):
        parse_source(f"{source.folder}@{commit}", name)  # refuses a commit without torch/
    if arguments.script:
        print(_script(arguments, source.folder, good, bad))
        return 0
    if arguments.judge:
        return _judge(arguments, question, observer, source.folder, good)
    if source.state.endswith("-dirty"):
        print(f"changes in {source.folder} that are not committed are a part of no commit", file=sys.stderr)
    bisector = Bisector(History(source.folder, good, bad), observer, question, _say)
    if arguments.restart:
        bisector.saved.forget()
        bisector.reused = 0
    return _bisect(bisector)


def _say(line: str) -> None:
    print(line, flush=True)


def _bisect(bisector: Bisector) -> int:
    history, cases = bisector.history, bisector.observer.cases
    print(heading(f"# {bisector.question.name} of {', '.join(cases)} on {bisector.observer.target}"))
    print(
        f"torch {torch_build().version} with the Python files of {history.repository}: {len(history.commits)} commits"
    )
    if bisector.reused:
        print(f"{bisector.reused} commits were measured by an earlier call; --restart measures them again")
    print(f"  good    {history.good[:12]}  {history.subject(history.good)}")
    print(f"  bad     {history.bad[:12]}  {history.subject(history.bad)}", flush=True)
    status, problems = 0, []
    for case in cases:
        try:
            bisector.check_ends(case)
            cause = bisector.find(case)
        except BisectError as error:
            if len(cases) == 1:
                raise
            problems.append(str(error))
            continue
        print("\n".join(["", *_lines(bisector, cause)]), flush=True)
        status = max(status, int(len(cause.found.suspects) > 1))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return max(status, int(bool(problems)))


def _lines(bisector: Bisector, cause: Cause) -> Iterable[str]:
    history, found, question = bisector.history, cause.found, bisector.question
    if len(found.suspects) == 1:
        yield heading(f"{cause.case}: {question.name} changed with {found.suspects[0]}")
    else:
        yield heading(f"{cause.case}: {question.name} changed with one of {len(found.suspects)} commits")
        yield "those that were skipped do not fit the binaries of this torch, so they cannot be told apart:"
    for commit in found.suspects:
        yield f"  {commit[:12]}  {history.subject(commit)}"
    yield (
        f"{found.relevant} of {len(history.commits)} commits change what the case executes; "
        f"{bisector.processes} compiles now, {bisector.reused} commits from an earlier call"
    )
    if question.kind != "code":
        yield f"  before: {question.short_answer(cause.before)}"
        yield f"  after:  {question.short_answer(cause.after)}"
    if not cause.is_last_answer:
        again = f"--good {found.suspects[-1][:12]}"
        yield f"it is the first of several changes: {question.name} of --bad is another one yet; go on with {again}"
    if cause.functions:
        yield ""
        yield "changed lines, those that the case executes with *:"
    for function in cause.functions:
        yield f"torch/{function.path}: {function.name}"
        yield from (f"  {line}" for line in _shortened(function.lines))
    yield ""
    if cause.before.code == cause.after.code:
        yield "the code is the same before and after"
    elif cause.after.error:
        yield f"compiling raises {cause.after.error}"
    else:
        yield from map(diff_line, ("--- before", "+++ after", *diff_lines(cause.before.code, cause.after.code)[2:]))


def _shortened(lines: Sequence[str]) -> Iterable[str]:
    """At most 40 lines, the executed ones first of all."""
    if len(lines) <= _MAX_LINES:
        return lines
    executed = [line for line in lines if line.startswith("*")][:_MAX_LINES] or lines[:_MAX_LINES]
    return [*executed, f"… {len(lines) - len(executed)} more lines"]


_MAX_LINES = 40


def _judge(arguments: argparse.Namespace, question: Question, observer: Observer, repository: Path, good: str) -> int:
    """Measures one commit, for `git bisect run`."""
    commit = git_repository.commit_id(repository, arguments.judge)
    source = parse_source(f"{repository}@{commit}", "--judge")
    reference = parse_source(f"{repository}@{good}", "--good")
    wanted = observer.observe(lay(reference, torch_build()).folder, functions=False)
    observed = observer.observe(lay(source, torch_build()).folder, functions=False)
    result = _AS_GOOD
    for case in observer.cases:
        before, now = wanted.observations[case], observed.observations[case]
        if before.misfit:
            raise BisectCommandError(f"--good {good[:12]} cannot be observed: {before.misfit}")
        if now.misfit:
            print(f"{case}: skipped: {now.misfit}")
            return _SKIP
        changed = not question.is_same(question.answer(before), question.answer(now))
        print(f"{case}: {question.name} {'changed' if changed else 'as in --good'}")
        result = max(result, _CHANGED if changed else _AS_GOOD)
    return result


def _script(arguments: argparse.Namespace, repository: Path, good: str, bad: str) -> str:
    """A shell script that measures the commit which `git bisect` checked out. Wrong input ends the whole bisection."""
    words = [sys.executable, "-m", "conformance", "bisect", *arguments.words]
    if arguments.target:
        words += ["--target", arguments.target]
    words += ["--source", str(repository), "--good", good, "--bad", bad]
    for name in ("numerics", "requirement", "code"):
        words += [f"--{name}"] if getattr(arguments, name) else []
    words += ["--fact", arguments.fact] if arguments.fact else []
    options = adhoc_options(arguments)
    words += [word for text in options.inputs for word in ("--input", text)]
    words += [word for text in options.config for word in ("--config", text)]
    words += [f"--grad={text}" if text else "--grad" for text in options.grad]
    words += ["--dynamic"] if options.dynamic else []
    return "\n".join(
        [
            "#!/bin/sh",
            "# In the repository:",
            f"#   git bisect start {bad[:12]} {good[:12]}",
            "#   git bisect run sh THIS_FILE",
            f"cd {shlex.quote(str(Path.cwd()))} || exit {_ABORT}",
            f"commit=$(git -C {shlex.quote(str(repository))} rev-parse HEAD) || exit {_ABORT}",
            f'{shlex.join(words)} --judge "$commit"',
            "status=$?",
            f"case $status in {_AS_GOOD}|{_CHANGED}|{_SKIP}) exit $status ;; *) exit {_ABORT} ;; esac",
        ]
    )
