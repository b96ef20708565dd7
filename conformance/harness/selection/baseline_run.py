"""A baseline that is no run yet: a checkout or a commit of PyTorch. Another pytest generates its code first."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from conformance.harness.configuration import pytest_options
from conformance.harness.selection import affected_cases
from conformance.settings import ACCEPT, long_name, option_name
from conformance.sources.source_in_use import VARIABLE, SourceInUse, source_in_use
from conformance.sources.torch_source import TorchSource, parse_source
from conformance.storage.runs import RunError, existing_runs, runs_folder

#: So many lines of a run that could not run are printed.
_SHOWN = 15
#: Exit statuses of a pytest whose items ran, passed or failed; and of one that was interrupted.
_RAN, _INTERRUPTED = (0, 1), 2
#: Options of the run that its baseline does not share, with what they are there. An empty one counts as not given.
_OTHER = {"baseline": "", "report": "", "write-known-failures": ""}


def use_source_as_baseline(config: pytest.Config) -> None:
    """Where --baseline names a checkout or a commit, generates its code in another process, and compares with that."""
    word = pytest_options.option(config, "baseline")
    source = baseline_source(word, config.rootpath) if word else None
    if source is None or config.option.collectonly:
        return
    settings = pytest_options.read_settings(config)  # refuses wrong options before the long run, not after it
    checks = [each for each in ("code", "work") if each == "code" or each in settings.checks]
    call = config.invocation_params
    with affected_cases.edit_for_another_run(config) as words:
        log = runs_folder(config.rootpath) / f"{run_name(source)}.log"
        name = run_baseline(source, [*call.args, *words], call.dir, log, source_in_use(), os.environ, checks)
    setattr(config.option, pytest_options.dest("baseline"), name)


def baseline_source(word: str, root: Path) -> TorchSource | None:
    """The source that --baseline names as PATH or PATH@COMMIT; None for a run. `root`: of the project with the runs.

    Raises SourceError and GitError for a checkout without that commit, and for one that is no PyTorch.
    """
    path = Path(word).expanduser()
    if word in existing_runs(root) or (path / "run.json").is_file():
        return None
    is_commit = "@" in word and not path.exists() and Path(word.rpartition("@")[0]).expanduser().is_dir()
    return parse_source(word, option_name("baseline")) if is_commit or path.is_dir() else None


def run_name(source: TorchSource) -> str:
    """The name of the run that a baseline becomes: `baseline-1a2b3c4d5e6f`, or `baseline-pytorch` of a folder."""
    return f"baseline-{source.commit[:12] or source.folder.name}"


def run_baseline(
    source: TorchSource,
    arguments: Sequence[str],
    folder: Path,
    log: Path,
    used: SourceInUse | None,
    environment: Mapping[str, str],
    checks: Sequence[str] = ("code",),
) -> str:
    """Runs the same items with a source, and returns the name of that run. It replaces an earlier one.

    `arguments`: those of pytest. `folder`: where the user called it. `log`: the file for what it prints. `used`: the
    source of this process. Raises RunError where the items did not run, such as with Python files that do not fit the
    binaries; the end of what pytest said is printed before.
    """
    name = run_name(source)
    word = f"{source.folder}@{source.commit}" if source.commit else str(source.folder)
    options = _OTHER | {"torch-source": word, "save-run": name, "checks": ",".join(checks)}
    command = [sys.executable, "-m", "pytest", *arguments]
    command += [f"{long_name(option)}={value}" for option, value in options.items()]
    command += ["--junit-xml=", "--tb=no", "--no-summary", "--maxfail=0"]
    print(f"baseline: the same items with {source.name}, kept as the run {name}; its output: {log}", flush=True)
    status = _status(command, folder, log, _without_source(environment, used))
    if status == _INTERRUPTED:
        sys.exit(status)
    if status not in _RAN:
        print("\n".join(_last_lines(log)), flush=True)
        raise RunError(
            f"{option_name('baseline')} {word}: pytest with these Python files ended with status {status}, so "
            "there is nothing to compare with; its message is above"
        )
    print(f"baseline: done; what failed in it does not count. Now this run, compared with {name}", flush=True)
    return name


def _last_lines(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if line.strip()][-_SHOWN:]


def _status(command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> int:
    """The exit status. Ctrl-C reaches the process too, and this one waits until it has ended."""
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        while process.returncode is None:
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
        return process.returncode


def _without_source(environment: Mapping[str, str], used: SourceInUse | None) -> dict[str, str]:
    """The variables of a process that has neither the source of this one, nor accepts anything."""
    result = {name: value for name, value in environment.items() if name not in (VARIABLE, ACCEPT)}
    if used is not None:
        paths = [each for each in result.get("PYTHONPATH", "").split(os.pathsep) if each and each != used.folder]
        result["PYTHONPATH"] = os.pathsep.join(paths)
    return result
