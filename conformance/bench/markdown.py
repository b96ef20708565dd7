"""A report as a part of a page, between two marks: the page around it, and other devices' parts, stay."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path

from conformance import atomic_files
from conformance.bench import BenchError, table
from conformance.bench.report import Report, Row

_WIDTH = 150


def write(report: Report, path: Path) -> None:
    """Replaces the device's part of the page, or writes a new page; see `marks`.

    Raises BenchError for a page that has no place for it.
    """
    start, end = marks(str(report.about["device"]))
    part = f"{start}\n\n{page(report)}\n\n{end}\n"
    if path.exists():
        page_now = path.read_text(encoding="utf-8")
        before, found, rest = page_now.partition(start)
        _, ends, after = rest.partition(end)
        if not (found and ends):
            raise BenchError(
                f"{path} is there and has no place for this: put the lines {start} and {end} where it goes"
            )
        part = before + part.rstrip("\n") + after
    atomic_files.write_atomically(path, part)


def refuse(path: Path, device: str) -> None:
    """Raises the BenchError that `write` would, before hours of measuring."""
    if path.exists():
        now = path.read_text(encoding="utf-8")
        for mark in marks(device):
            if mark not in now:
                raise BenchError(f"{path} is there and has no place for this: there is no line {mark} in it")


def marks(device: str) -> tuple[str, str]:
    return f"<!-- bench {device} -->", f"<!-- end of bench {device} -->"


def page(report: Report) -> str:
    """The command, the machine, and a table for each function."""
    parts = [f"```\n{_lines(report.about['command'])}\n```", _wrapped(f"{table.about(report.about)}.")]
    parts.append(_wrapped(table.legend(report.rows).replace("\n", " ")))
    parts += [_function(name, rows) for name, rows in table.by_function(report.rows).items()]
    return "\n\n".join([*parts, *(f"**{said}**" for said in table.remarks(report))])


def _function(name: str, rows: Sequence[Row]) -> str:
    axes, common = table.axes_of(rows)
    header, lines = table.cells(rows, axes)
    alignment = ["---"] * len(axes) + ["---:"] * (len(header) - len(axes))
    if any("vectorised" in row.facts for row in rows):
        alignment.append("---")
        header.append("vectorised")
        lines = [[*line, row.facts["vectorised"].partition(":")[0]] for line, row in zip(lines, rows, strict=True)]
    said = [
        f"### {table.title(f'`{name}`', common)}",
        "",
        _line(header),
        _line(alignment),
        *(_line(_bold(line) if row.loses else line) for line, row in zip(lines, rows, strict=True)),
    ]
    said += ["", _wrapped(f"{table.limits(rows)}.")]
    found = table.losses(rows, axes)
    if found:
        said += ["", f"Compiled loses in {sum(row.loses for row in rows)} of {len(rows)}:", ""]
    for labels, why in found:
        said.append(_wrapped(f"- {labels}: {why}", indent="  "))
    return "\n".join(said)


def _lines(command: str) -> str:
    """A command that is too long for a line, broken before a word."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if lines[-1] and len(lines[-1]) + len(word) > _WIDTH - 3:
            lines.append("    ")
        lines[-1] += word if not lines[-1].strip() else f" {word}"
    return " \\\n".join(lines)


def _bold(cells: Sequence[str]) -> list[str]:
    """The ratio stands out: it is the one cell that ends in ×."""
    return [f"**{cell}**" if cell.endswith("×") else cell for cell in cells]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _wrapped(said: str, indent: str = "") -> str:
    said = said.replace("*", "\\*")  # of index expressions
    return "\n".join(textwrap.wrap(said, _WIDTH, subsequent_indent=indent, break_long_words=False))
