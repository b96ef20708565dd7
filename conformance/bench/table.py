"""A report for readers, on a terminal: a table for each function, the axes first, and below it where compiled loses.

`torch.utils.benchmark.Compare` has a column for each thing compared and a row for each label, and knows neither spread
nor limit nor several axes: so this is a table of our own.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from conformance.bench.report import Report, Row
from conformance.bench.timing import NOISY, Spread
from conformance.cases.case import COMPILE_KEYWORDS
from conformance.terminal import heading, table_text

WIDTH = 120
#: Of each table, so many amounts of bytes or operations are told with their rates.
_AMOUNTS = 4


def text(report: Report) -> str:
    parts = [about(report.about), legend(report.rows)]
    parts += ["\n".join(_function(name, rows)) for name, rows in by_function(report.rows).items()]
    return "\n\n".join([*parts, *remarks(report)])


def about(said: Mapping[str, object]) -> str:
    """Which machine, and with what: `cpu_avx512 (AMD EPYC), 1 thread; torch 2.13.0+cpu, Python 3.11.9; …`."""
    number = said["threads"]
    on = f", {number} thread{'s' * (number != 1)}" if said["device"] == "cpu" else ""
    triton = f", Triton {said['triton']}" if said["triton"] and said["device"] != "cpu" else ""
    return (
        f"{said['target']} ({said['processor']}){on}; torch {said['torch']}{triton}, Python {said['python']}; "
        f"load {said['load']} on {said['cores']} cores"
    )


def legend(rows: Iterable[Row]) -> str:
    gradients = " Forward and backward where gradients are asked for." if any(row.gradients for row in rows) else ""
    return "\n".join(
        textwrap.wrap(
            "µs: median of a call (in brackets: between the quartiles), eager and compiled in turns. ratio: eager over "
            "compiled. limit: a copy of as many bytes as are read and written at least, or the product's time at the "
            "rate of a large one; measured here, in the same run." + gradients,
            WIDTH,
        )
    )


def remarks(report: Report) -> list[str]:
    """What a reader has to know of the whole run: noise, and cases that are missing."""
    said = []
    if noisy := sum(any(spread.noisy for spread in row.times.values()) for row in report.rows):
        said.append(
            f"noisy: in {noisy} of {len(report.rows)} cases quartiles are more than {100 * NOISY:.0f} % of the median "
            "apart; measure again on a quiet machine"
        )
    if report.stopped:
        said.append(f"interrupted: {len(report.rows)} cases were measured, {report.stopped} were not")
    return said


def by_function(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.function, []).append(row)
    return found


def axes_of(rows: Sequence[Row]) -> tuple[dict[str, str], str]:
    """Axes in which the rows differ, with their shortest names; and what they have in common, `dtype f32, static`."""
    names = list(dict.fromkeys(name for row in rows for name in row.axes))
    varied = [name for name in names if len({row.axes.get(name) for row in rows}) > 1]
    last = {name: name.rpartition(".")[2] for name in names}
    short = {name: last[name] if list(last.values()).count(last[name]) == 1 else name for name in names}
    common = ", ".join(_said(short[name], rows[0].axes[name]) for name in names if name not in varied)
    return {name: short[name] for name in varied}, common


def _said(axis: str, label: str) -> str:
    """`dtype f32`, but `beta1`, `backward` and `static`, which need no name."""
    return label if label.startswith(axis) or axis in COMPILE_KEYWORDS else f"{axis} {label}"


def title(name: str, common: str) -> str:
    return f"{name}: {common}" if common else name


def cells(rows: Sequence[Row], axes: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """The header and a line for each row, as text."""
    header = [*axes.values(), "eager µs", "compiled µs", "ratio", "limit µs", "limit/eager", "limit/compiled"]
    lines = [
        [
            *(row.axes.get(name, "") for name in axes),
            spread(row.times["eager"]),
            spread(row.times["compiled"]),
            f"{row.ratio:.2f}×",
            f"{row.limit.kind} {short(row.limit.us)}",
            f"{100 * row.fraction('eager'):.0f} %",
            f"{100 * row.fraction('compiled'):.0f} %",
        ]
        for row in rows
    ]
    return header, lines


def _function(name: str, rows: Sequence[Row]) -> list[str]:
    axes, common = axes_of(rows)
    header, lines = cells(rows, axes)
    marks = [row.loses for row in rows]
    shown = aligned(header, lines, left=len(axes), red=marks)
    limit = textwrap.wrap(limits(rows), WIDTH, subsequent_indent="      ")
    return [heading(title(name, common)), shown, *limit, *_losses(rows, axes)]


def limits(rows: Sequence[Row]) -> str:
    """`limit: copy of 0.30 MB at 139.2 GB/s`: of each amount, the smallest first, what was measured (the median)."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        amount = row.limit.flops if row.limit.kind == "product" else row.limit.bytes
        found.setdefault((row.limit.kind, amount), []).append(row.limit.rate)
    said = []
    for (kind, amount), rates in sorted(found.items())[:_AMOUNTS]:
        product = kind == "product"
        unit = "FLOP" if product else "B"
        said.append(f"{kind} of {scaled(amount, unit)} at {scaled(statistics.median(rates), unit)}/s")
    more = [f"{len(found) - _AMOUNTS} more"] if len(found) > _AMOUNTS else []
    return f"limit: {', '.join([*said, *more])}"


def scaled(value: float, unit: str) -> str:
    """`0.30 MB`, `139 GB`, `1.2 TFLOP`; amounts below a thousand as they are."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{short(value / factor)} {letter}{unit}"
    return f"{value:.0f} {unit}"


def aligned(header: Sequence[str], lines: Sequence[Sequence[str]], left: int, red: Sequence[bool]) -> str:
    """Returns the cells as a table. `left`: columns that are aligned to the left. `red`: lines that stand out."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for number, title in enumerate(header):
        table.add_column(title, justify="left" if number < left else "right")
    for cells, stands_out in zip(lines, red, strict=True):
        table.add_row(*cells, style="red" if stands_out else "")
    return table_text(table)


def losses(rows: Sequence[Row], axes: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where compiled loses: the rows by what their axes say, and why; rows with the same reasons together."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.loses:
            label = " ".join(row.axes.get(name, "") for name in axes) or row.case.partition("/")[2]
            found.setdefault("; ".join(row.why), []).append(f"{label} ({1 / row.ratio:.1f}× slower)")
    return [(", ".join(labels), why) for why, labels in found.items()]


def _losses(rows: Sequence[Row], axes: Mapping[str, str]) -> list[str]:
    found = losses(rows, axes)
    if not found:
        return []
    lines = [f"compiled loses in {sum(row.loses for row in rows)} of {len(rows)}:"]
    for labels, why in found:
        lines += textwrap.wrap(f"{labels}: {why}", WIDTH, initial_indent="  ", subsequent_indent="      ")
    return lines


def spread(value: Spread) -> str:
    return f"{short(value.median)} ({short(value.iqr)})"


def short(value: float) -> str:
    """Three digits, or two behind the point: 0.04, 3.62, 61.9, 1240."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
