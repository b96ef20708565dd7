#!/usr/bin/env python3
"""Runs the commands of README, CONTRIBUTING, docs/ and examples/ where the pages say, and compares what they print.

    python ci/commands.py                      # all pages
    python ci/commands.py docs/running.md      # one
    python ci/commands.py --part 1/4           # every fourth page
    python ci/commands.py --list               # the commands and their places; runs nothing
    python ci/commands.py --check              # for lint: each block has a mark; runs nothing

documented_commands.py says what a mark is. Everything happens in a temporary folder: a clone of the checkout, with the
files that are changed in it; projects; a home with a checkout of PyTorch, made of the files of the installed torch.
Exit status 1 if a command fails, does not print what its page shows, or does not write the file that it names.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import documented_commands
import examples
from documented_commands import ROOT, Command, MarkError

#: Seconds that a command may take.
LIMIT = 200
#: Variables that would change what a command does.
_LEFT_OUT = re.compile(r"CI|EXPECTTEST_ACCEPT|PYTHONPATH|PYTEST_.*|CONFORMANCE_.*|GITHUB_.*|TOX_.*|VIRTUAL_ENV|XDG_CACHE_HOME")
#: Options and signs before the name of a file that a command writes.
_WRITES = re.compile(r"(?:^|\s)(?:-o|--json|--conformance-report|--markdown|>)[ =]([\w./-]+)")
_TIME = re.compile(r"\d+(?:\.\d+)?(?= ?(?:s|ms|seconds|minutes)\b)")


def mismatch(shown: Sequence[str], output: str) -> str:
    """What of the lines that a page shows is not in the output; "" if all is. "…" stands for any text."""
    lines = [" ".join(_TIME.sub("N", line).split()) for line in output.splitlines()]
    for line in shown:
        parts = [re.escape(" ".join(_TIME.sub("N", each).split())) for each in line.split("…")]
        wanted = ".*".join(parts)
        if any(re.search(rf"(?<!\d){wanted}(?!\d)", each) for each in lines):
            continue
        figures = re.sub(r"\d+", r"\\d+", wanted)
        if near := next((each for each in lines if re.search(figures, each)), None):
            return f"a figure differs: the page has {line.strip()!r}, the run {near!r}"
        return f"the page shows {line.strip()!r}, and no line of the output has it"
    return ""


def _quiet(function: Callable[..., None], *words: object) -> None:
    """Calls a function that starts processes. Their output is shown if it fails."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(1), os.dup(2)]
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            function(*words)
        except subprocess.CalledProcessError:
            file.seek(0)
            os.write(kept[1], file.read())
            raise
        finally:
            for number, old in enumerate(kept, start=1):
                os.dup2(old, number)
                os.close(old)


class Places:
    """The folders and environments in which commands run, below one temporary folder. Each page has its own."""

    def __init__(self, folder: Path, files: Sequence[Command] = ()) -> None:
        """`files`: what the pages give."""
        self.files = files
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        (self.home / ".gitconfig").write_text("[user]\n\tname = reader\n\temail = reader@example.org\n", encoding="utf-8")
        self._known: dict[tuple[str, str], tuple[Path, Path]] = {}

    def place(self, page: str, name: str) -> tuple[Path, Path]:
        """The folder and the Python of a place of a page."""
        if (page, name) not in self._known:
            folder = self.folder / re.sub(r"\W+", "-", page.removesuffix(".md")) / name.split()[0]
            folder.parent.mkdir(parents=True, exist_ok=True)
            python = examples.new_environment(folder.with_name(f"{folder.name}-environment"))
            _add_scripts(python)
            if name == "checkout":
                _git(None, "clone", "--quiet", "--no-hardlinks", self.clone, folder)
                _git(folder, "remote", "remove", "origin")
                _quiet(examples.install, python, "--no-deps", "--no-build-isolation", "-e", folder)
            else:
                if name == "project":
                    folder.mkdir()
                else:
                    shutil.copytree(self.clone / "examples" / name.removeprefix("example "), folder)
                    _git(folder, "init", "--quiet")
                    _git(folder, "add", ".")
                    _git(folder, "-c", "user.name=r", "-c", "user.email=r@example.org", "commit", "--quiet", "-m", "Begin")
                _quiet(examples.install, python, "--force-reinstall", "--no-deps", *self.wheels)
            self._known[page, name] = folder, python
            for each in self.files:
                if (each.page, each.place) == (page, name):
                    (folder / each.file).parent.mkdir(parents=True, exist_ok=True)
                    (folder / each.file).write_text(each.text, encoding="utf-8")
        return self._known[page, name]

    @property
    def clone(self) -> Path:
        """A clone of the checkout, with the files that are changed there, as a commit."""
        folder = self.folder / "clone"
        if not folder.exists():
            _git(None, "clone", "--quiet", ROOT, folder)
            changed = _git(ROOT, "ls-files", "-z", "--modified", "--others", "--exclude-standard").split("\0")
            for name in filter(None, changed):
                if (ROOT / name).exists():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
            if any(changed):
                print("files that are changed in the checkout are tested as they are", flush=True)
                _git(folder, "add", "--all")
                _git(folder, "-c", "user.name=r", "-c", "user.email=r@example.org", "commit", "--quiet", "--message", "As it is")
        return folder

    @property
    def wheels(self) -> list[Path]:
        folder = self.folder / "wheels"
        if not folder.exists():
            _quiet(examples.build, folder, [str(self.clone), str(self.clone / "suite")])
        return sorted(folder.glob("*.whl"))

    def environment(self, python: Path) -> dict[str, str]:
        """The variables of a command. Nothing of this process leaks that changes what it does."""
        env = {name: value for name, value in os.environ.items() if not _LEFT_OUT.fullmatch(name)}
        config = Path("~/.config/pip/pip.conf").expanduser()
        return {
            **({"PIP_CONFIG_FILE": str(config)} if config.exists() else {}),
            **env,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), env["PATH"]]),
            "CONFORMANCE_CACHE": str(self.folder / "cache"),
            "PYTEST_XDIST_AUTO_NUM_WORKERS": str(min(4, os.cpu_count() or 1)),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }

    def run(self, command: Command) -> str:
        """Runs a command. Returns why it failed, "" if it did not."""
        folder, python = self.place(command.page, command.place)
        env, limit = self.environment(python) | {"PLACE": str(folder)}, int(command.value("limit") or LIMIT)
        if "$CHECKOUT" in command.as_run():
            env["CHECKOUT"] = str(self.place(command.page, "checkout")[0])
        if "pip install" in command.text:  # the wheels stand for what an index has
            env["PIP_FIND_LINKS"] = f"{self.wheels[0].parent} {env.get('PIP_FIND_LINKS', '')}"
            (self.folder / "constraints.txt").write_text("".join(f"{each.name.split('-')[0]} @ {each.as_uri()}\n" for each in self.wheels))
            env["PIP_CONSTRAINT"] = str(self.folder / "constraints.txt")
        for each in command.values("writes"):
            name, text = each.split(": ", 1)
            (folder / name).write_text(f"{text}\n", encoding="utf-8")
        text = command.as_run()
        if "~/pytorch" in text or any("~/pytorch" in each for each in command.values("before")):
            make_pytorch(self.home / "pytorch")
        for each in command.values("before"):
            status, output = execute(each, folder, env, limit)
            if status:
                return f"before it, {each!r} ended with status {status}\n{output}"
        status, output = execute(text, folder, env, limit, command.value("ends at"), command.value("answers"))
        wanted = int(command.value("status") or 0)
        if status is None:
            return f"it did not end within {limit} s\n{output}"
        if status != wanted:
            return f"it ended with status {status}, and not {wanted}\n{output}"
        prints = command.value("prints")
        shown = () if prints == "anything" else (prints,) if prints else command.shown
        if wrong := mismatch(shown, output):
            return f"{wrong}\n{output}"
        if missing := [name for name in _WRITES.findall(text) if name != "-" and not (folder / name).exists()]:
            return f"it did not write {missing[0]}\n{output}"
        return ""


def execute(text: str, folder: Path, env: dict[str, str], limit: float, ends_at: str = "", answers: str = "") -> tuple[int | None, str]:
    """Runs a line of bash. Returns its exit status, None if it took too long, and its output."""
    process = subprocess.Popen(
        ["bash", "-c", text],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Event()

    def kill() -> None:
        late.set()
        _end(process, signal.SIGKILL)

    timer = threading.Timer(limit, kill)
    timer.start()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(answers.replace("\\n", "\n"))
        process.stdin.close()
    lines, ended = [], False
    for line in process.stdout:
        lines.append(line)
        if ends_at and not ended and ends_at in line:
            ended = True
            time.sleep(1)
            _end(process, signal.SIGINT)
    status = process.wait()
    timer.cancel()
    _end(process, signal.SIGKILL)  # what it left in the background
    output = "".join(lines)
    if late.is_set():
        return None, output
    if ends_at:
        return (0, output) if ended and status in (0, 130, -signal.SIGINT) else (status or 1, output)
    return status, output


def _end(process: subprocess.Popen[str], sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, sign)


def _add_scripts(python: Path) -> None:
    """Writes `pytest` and `pip` into an environment that sees both and has neither's script."""
    scripts = {
        "pytest": f"#!{python}\nimport sys\n\nimport pytest\n\nsys.exit(pytest.console_main())\n",
        "pip": f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pip --python {shlex.quote(str(python))} "$@"\n',
    }
    for name, text in scripts.items():
        file = python.with_name(name)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)


def make_pytorch(folder: Path) -> None:
    """Makes the reader's checkout of PyTorch: the installed files, tag v2.13.0 and the branch main, two commits later."""
    if folder.exists():
        return
    import torch

    source = Path(torch.__file__).parent
    for file in source.rglob("*.py"):
        target = folder / "torch" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    options = folder / "torch" / "_inductor" / "config.py"
    text = options.read_text(encoding="utf-8")
    old, new = '"TORCHINDUCTOR_SIZE_ASSERTS", "1"', '"TORCHINDUCTOR_SIZE_ASSERTS", "0"'
    assert old in text
    author = ("-c", "user.name=r", "-c", "user.email=r@example.org")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for number, edited in enumerate((text, f"{text}# later\n", text.replace(old, new))):
        options.write_text(edited, encoding="utf-8")
        _git(folder, "add", "--all")
        _git(folder, *author, "commit", "--quiet", "-m", f"Commit {number}")
        if not number:
            _git(folder, "tag", "v2.13.0")


def _git(folder: Path | None, *words: str | Path) -> str:
    ran = subprocess.run(["git", *map(str, words)], cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    return ran.stdout


def _left_out(command: Command) -> str:
    by = command.value("run by")
    return command.value("not run") or (f"{by} runs it" if by else "")


def run_all(found: list[Command], places: Places) -> int:
    """Runs the commands, a line for each. Returns the exit status."""
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for command in found:
        where = f"{command.page}:{command.line}"
        if why := _left_out(command):
            counts["not run here"] += 1
            print(f"not run  {where}: {command.text}: {why}", flush=True)
            continue
        began = time.monotonic()
        wrong = places.run(command)
        took = time.monotonic() - began
        counts["failed" if wrong else "ok"] += 1
        print(f"{'FAILED' if wrong else 'ok':<8} {where}: {command.as_run()} ({took:.0f} s)", flush=True)
        if wrong:
            reason, _, output = wrong.partition("\n")
            print("\n".join(["", reason, *(f"    {line}" for line in output.splitlines()[-60:]), ""]), flush=True)
    print(f"{len(found)} commands: {counts['ok']} ok, {counts['failed']} failed, {counts['not run here']} not run here; {time.monotonic() - start:.0f} s")
    return 1 if counts["failed"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all pages with commands")
    parser.add_argument("--list", action="store_true", help="print the commands and their places")
    parser.add_argument("--check", action="store_true", help="fail if a block has no mark, or a wrong one")
    parser.add_argument("--part", metavar="N/M", help="run the Nth of M parts of the pages")
    parser.add_argument("--line", type=int, action="append", help="run the commands of these lines alone")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="use this new folder, and keep it")
    options = parser.parse_args()
    pages = [page.resolve() for page in options.pages] or documented_commands.pages()
    found, wrong = {}, []
    for page in pages:
        try:
            found[page] = list(documented_commands.commands(page))
        except MarkError as error:
            wrong.append(str(error))
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if options.check:
        return 0
    chosen = [each for page in found for each in found[page] if not options.line or each.line in options.line or each.file]
    if options.list:
        print("\n".join(f"{each.page}:{each.line}: {each.value('not run') and 'not run' or each.place}: {each.file or each.text}" for each in chosen))
        return 0
    folder = options.keep or Path(tempfile.mkdtemp(prefix="commands-"))
    try:
        files = [each for each in chosen if each.file]
        return run_all([each for each in chosen if not each.file], Places(folder.resolve(), files))
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
