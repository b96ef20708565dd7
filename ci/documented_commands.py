"""The commands of the pages: each with its line, what the page shows below it, and the mark that says where it runs.

A mark is a comment right above a block of code. Readers do not see it. Each of its lines is a key and a value:

    <!-- runs in: checkout
    adds: conformance/ops/test_flip.py
    not run [--require-device]: it needs a GPU
    -->

A key with a part in brackets is for the commands of the block that have this text; with a "$" at its end, for those
that end so. A page may begin with `<!-- commands run in: PLACE`, with the same keys, for all its blocks; what a block
says replaces that. The keys:

runs in   checkout: a clone. workflow: a clone, with CI's variables. project: an empty folder, with both wheels in its
          environment. own project: the same without the wheel of the cases. example NAME: a copy of examples/NAME
          beside the wheels
not run   why not. The reader has to see it in the text as well
run by    the script that runs it, and compares what the page shows
adds      words for the end of each command of pytest, or of those that have the part: they narrow what it runs
with      the text that replaces the part in brackets, where a reader writes a name of his own, or waits for hours
before    a command that stands for what the reader did until here, such as an edit
writes    `FILE: TEXT`: a file that the page gives in its text
prints    what the output has instead of what the page shows; "anything" where the page shows another machine's
status    the exit status that is right, if it is not 0
ends at   a text: the command would go on for ever, and gets Ctrl-C when it has printed this
answers   what the reader types
limit     how many seconds it may take, if more than 300

A workflow of CI is a page too. Its commands are its lines `- run: …`, and run in a clone with the variables of CI. A
mark is the comment right above such a line, if it has a line of the form KEY: VALUE.

`<!-- file: NAME -->` above a block of Python or TOML says that the reader writes it into that file; `runs in` below it
says where, if it is another place than project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

KEYS = (
    "runs in",
    "not run",
    "run by",
    "adds",
    "with",
    "before",
    "writes",
    "prints",
    "status",
    "ends at",
    "answers",
    "limit",
)
_PLACES = re.compile(r"checkout|workflow|project|own project|example [\w-]+")
_STEP = re.compile(r"^(?P<mark>(?: *# .*\n)*)(?P<indent> *)- run: (?P<command>.*)$", re.MULTILINE)
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>(?:runs in|not run|run by|file)\b(?:(?!-->).)*?) ?-->\n)?"
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)\n(?P<code>.*?)^(?P=indent)(?P=fence)",
    re.MULTILINE | re.DOTALL,
)
_DEFAULT = re.compile(r"^<!-- commands run in: (.*?) ?-->", re.MULTILINE | re.DOTALL)
_SHELL = ("bash", "sh", "console", "shell")
#: The beginning of a line of a block without a language that is a command.
_BEGINS = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:pytest|python3?|pip|tox|ci/tox|\.ci/run|git|ruff|mypy|lint-imports|towncrier|apt-get|cd"
    r"|export|~/\S+/python)(?: |$)"
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s+)# .*$")


class MarkError(ValueError):
    """A mark is missing or wrong: the message has the page and the line."""


class Setting(NamedTuple):
    key: str
    part: str
    value: str


@dataclass(frozen=True)
class Command:
    """`text`: as the page has it, without its comment. `shown`: the lines of output that the page has below it.

    `file`: the block is a file, and `text` its text. `section`: the heading above it.
    """

    page: str
    line: int
    text: str
    shown: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    file: str = ""
    first: bool = False
    section: str = ""

    def values(self, key: str) -> list[str]:
        """All values for this command. A setting of the whole block is for its first command if it is an action."""
        return [each.value for each in self.settings if each.key == key and self._fits(each)]

    def value(self, key: str) -> str:
        """The value for this command; "" for none. One with a part counts first, then the block's, then the page's."""
        found = [each for each in self.settings if each.key == key and self._fits(each)]
        return (next((each.value for each in found if each.part), "") or found[0].value) if found else ""

    def _fits(self, setting: Setting) -> bool:
        if setting.part:
            return has(self.text, setting.part)
        return self.first if setting.key in ("before", "writes") else True

    @property
    def place(self) -> str:
        return self.value("runs in") or "project"

    def as_run(self) -> str:
        """The command with what its mark replaces and adds."""
        text = self.text
        for each in self.settings:
            if each.key == "with":
                text = text.replace(each.part, each.value)
        named = any(each.key == "adds" and each.part and self._fits(each) for each in self.settings)
        added = self.value("adds") if named or "pytest" in self.text else ""
        return f"{text} {added}" if added else text


def has(command: str, part: str) -> bool:
    return command.endswith(part[:-1]) if part.endswith("$") else part in command


def pages(root: Path = ROOT) -> list[Path]:
    """The pages whose commands are run."""
    return [
        root / "README.md",
        root / "CONTRIBUTING.md",
        *sorted((root / "docs").glob("*.md")),
        *sorted((root / "examples").glob("*/README.md")),
        *sorted((root / "plugins").glob("*/README.md")),
        *sorted((root / ".github" / "workflows").glob("*.yml")),
    ]


def settings(mark: str, where: str) -> list[Setting]:
    """Reads the lines of a mark. Raises MarkError."""
    found = []
    for line in filter(None, map(str.strip, mark.splitlines())):
        match = re.fullmatch(r"([a-z ]+?)(?: \[(.+?)\])?: (.+)", line)
        if not match or match[1] not in KEYS:
            raise MarkError(
                f"{where}: {line!r} is no line of a mark: write KEY: VALUE, or KEY [PART]: VALUE; "
                f"keys are {', '.join(KEYS)}"
            )
        found.append(Setting(match[1], match[2] or "", match[3]))
    return found


def commands(page: Path, root: Path = ROOT) -> Iterator[Command]:
    """The commands and files of a page, in its order. Raises MarkError for the first block whose mark is wrong."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(root).as_posix()
    if page.suffix == ".yml":
        yield from _steps(text, name)
        return
    default = _DEFAULT.search(text)
    inherited = settings(f"runs in: {default[1]}", f"{name}:{_line(text, default.start())}") if default else []
    for block in _BLOCK.finditer(text):
        line, where = _line(text, block.start("fence")), f"{name}:{_line(text, block.start('fence'))}"
        mark = block["mark"] or ""
        section = (["", *_HEADING.findall(text[: block.start()])])[-1]
        if mark.startswith("file: "):
            file, _, more = mark.removeprefix("file: ").partition("\n")
            known = (*settings(more, where), *inherited)
            yield Command(name, line, block["code"], settings=known, file=file.strip(), section=section)
            continue
        lines = [each.removeprefix(block["indent"]) for each in block["code"].splitlines()]
        if not is_shell(block["language"], lines):
            if mark:
                raise MarkError(f"{where}: the block below this mark has no command: take the mark away")
            continue
        known = [*settings(mark, where), *inherited]
        if not any(each.key in ("runs in", "not run", "run by") and not each.part for each in known):
            raise MarkError(
                f"{where}: the block has no mark: write <!-- runs in: checkout -->, or project, "
                "or <!-- not run: WHY --> above it"
            )
        split = _split(lines)
        for each in known:
            _check(each, where, [command for _, command, _ in split], text, of_block=each not in inherited)
        for number, (offset, command, shown) in enumerate(split):
            yield Command(
                name, line + 1 + offset, command, tuple(shown), tuple(known), first=not number, section=section
            )


def _steps(text: str, name: str) -> Iterator[Command]:
    """The commands of a workflow. Raises MarkError."""
    for step in _STEP.finditer(text):
        line, command = _line(text, step.start("indent")), step["command"].strip()
        where = f"{name}:{line}"
        if command in ("|", ">", "|-", ">-"):
            raise MarkError(f"{where}: write a step for each command, so that each is tested: - run: COMMAND")
        mark = "\n".join(
            each.strip().removeprefix("# ")
            for each in step["mark"].splitlines()
            if re.match(r" *# [a-z ]+(?: \[.+?\])?: ", each)
        )
        known = (*settings(mark, where), Setting("runs in", "", "workflow"))
        for each in known:
            _check(each, where, [command], "", of_block=True)
        yield Command(name, line, command, settings=known, first=True)


def _check(setting: Setting, where: str, commands: list[str], text: str, of_block: bool) -> None:
    if setting.key == "runs in" and not _PLACES.fullmatch(setting.value):
        raise MarkError(
            f"{where}: unknown place {setting.value!r}: there are checkout, project, own project, example NAME"
        )
    if of_block and setting.part and not any(has(command, setting.part) for command in commands):
        raise MarkError(f"{where}: no command of the block has {setting.part!r}, which its mark names")
    if (
        setting.key == "writes"
        and re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).count(setting.value.partition(": ")[2]) == 0
    ):
        raise MarkError(
            f"{where}: the page does not give the text of {setting.value.partition(': ')[0]}: write it for readers too"
        )


def is_shell(language: str, lines: list[str]) -> bool:
    """Whether a block has commands: it names a shell, or has no language and a line that begins as a command does."""
    if language in _SHELL:
        return True
    first = next((line for line in lines if line.strip()), "")
    return not language and (bool(_BEGINS.match(first)) or any(line.startswith("$ ") for line in lines))


def _split(lines: list[str]) -> list[tuple[int, str, list[str]]]:
    """Number of the line, command, lines of output."""
    found: list[tuple[int, str, list[str]]] = []
    prompts = any(line.startswith("$ ") for line in lines)
    going_on = False
    for number, line in enumerate(lines):
        if going_on:
            found[-1] = (
                found[-1][0],
                f"{found[-1][1]} {_COMMENT.sub('', line).strip().removesuffix(chr(92)).strip()}",
                [],
            )
        elif line.startswith("$ ") or (not prompts and line.strip() and not line.lstrip().startswith("# ")):
            found.append((number, _COMMENT.sub("", line.removeprefix("$ ")).strip().removesuffix("\\").strip(), []))
        elif prompts and found and line.strip():
            found[-1][2].append(line)
        going_on = line.rstrip().endswith("\\")
    return found


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
