"""A report as a part of a Markdown page, between two markers. The rest of the page stays as it is."""

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
    """Replaces the device's part of the page, or writes a new page. Raises BenchError for a page without markers."""
    device = str(report.about["device"])
    start, end = markers(device)
    part = f"{start}\n\n{part_of_page(report)}\n\n{end}"
    if path.exists():
        before, after = _around_part(path, device)
        atomic_files.write_atomically(path, before + part + after)
    else:
        atomic_files.write_atomically(path, f"{part}\n")


def check_markers(path: Path, device: str) -> None:
    """Raises the BenchError that `write` would raise. Call it before hours of measuring."""
    if path.exists():
        _around_part(path, device)


def _around_part(path: Path, device: str) -> tuple[str, str]:
    start, end = markers(device)
    before, found_start, rest = path.read_text(encoding="utf-8").partition(start)
    _, found_end, after = rest.partition(end)
    if not (found_start and found_end):
        raise BenchError(f"{path} exists and has no place for the tables: add the lines {start} and {end} to it")
    return before, after


def markers(device: str) -> tuple[str, str]:
    return f"<!-- bench {device} -->", f"<!-- end of bench {device} -->"


def part_of_page(report: Report) -> str:
    """Returns the command, the machine, and a table for each function."""
    parts = [f"```\n{_command_lines(report.about['command'])}\n```", _wrapped(f"{table.about(report.about)}.")]
    parts.append(_wrapped(table.legend(report.rows).replace("\n", " ")))
    parts += [_function(name, rows) for name, rows in table.rows_by_function(report.rows).items()]
    return "\n\n".join([*parts, *(f"**{remark}**" for remark in table.remarks(report))])


def _function(name: str, rows: Sequence[Row]) -> str:
    axes, shared = table.varying_axes(rows)
    header, lines = table.cells(rows, axes)
    alignment = ["---"] * len(axes) + ["---:"] * (len(header) - len(axes))
    if any("vectorised" in row.facts for row in rows):
        alignment.append("---")
        header.append("vectorised")
        lines = [[*line, row.facts["vectorised"].partition(":")[0]] for line, row in zip(lines, rows, strict=True)]
    blocks = [
        f"### {table.title(f'`{name}`', shared)}",
        "",
        _line(header),
        _line(alignment),
        *(_line(_bold(line) if row.is_slower else line) for line, row in zip(lines, rows, strict=True)),
    ]
    blocks += ["", _wrapped(f"{table.limits_line(rows)}.")]
    slower = table.losses(rows, axes)
    if slower:
        blocks += ["", f"Compiled is slower in {sum(row.is_slower for row in rows)} of {len(rows)}:", ""]
    blocks += [_wrapped(f"- {labels}: {reasons}", indent="  ") for labels, reasons in slower]
    return "\n".join(blocks)


def _command_lines(command: str) -> str:
    """Returns the command; if it is too long for a line, broken before a word."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if lines[-1] and len(lines[-1]) + len(word) > _WIDTH - 3:
            lines.append("    ")
        lines[-1] += word if not lines[-1].strip() else f" {word}"
    return " \\\n".join(lines)


def _bold(cells: Sequence[str]) -> list[str]:
    """Makes the ratio bold: it is the only cell that ends in ×."""
    return [f"**{cell}**" if cell.endswith("×") else cell for cell in cells]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _wrapped(text: str, indent: str = "") -> str:
    text = text.replace("*", "\\*")  # of index expressions
    return "\n".join(textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False))
