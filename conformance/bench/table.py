"""A report as text: a table for each function, and below it why compiled is slower.

`torch.utils.benchmark.Compare` is not used: it shows no spread and no limit, and a row has only one label.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from conformance.bench.report import Report, Row
from conformance.bench.timing import NOISE, Spread
from conformance.cases.case import COMPILE_KEYWORDS
from conformance.terminal import heading, table_text, width

_MAX_WIDTH = 120
#: The line of limits names this many amounts of bytes or operations with their rates.
_MAX_AMOUNTS = 4


def text(report: Report) -> str:
    parts = [about(report.about), legend(report.rows)]
    parts += ["\n".join(_function(name, rows)) for name, rows in rows_by_function(report.rows).items()]
    return "\n\n".join([*parts, *remarks(report)])


def about(run: Mapping[str, object]) -> str:
    """Returns the machine and the versions: `cpu_avx512 (AMD EPYC), 1 thread; torch 2.13.0+cpu, Python 3.11.9; …`."""
    number = run["threads"]
    threads = f", {number} thread{'s' * (number != 1)}" if run["device"] == "cpu" else ""
    triton = f", Triton {run['triton']}" if run["triton"] and run["device"] != "cpu" else ""
    return (
        f"{run['target']} ({run['processor']}){threads}; torch {run['torch']}{triton}, Python {run['python']}; "
        f"load {run['load']} on {run['cores']} cores"
    )


def legend(rows: Iterable[Row]) -> str:
    """Explains the columns."""
    gradients = " With gradients, a call is forward and backward." if any(row.gradients for row in rows) else ""
    return "\n".join(
        textwrap.wrap(
            "µs: median time of a call (in brackets: the interquartile range); eager and compiled are timed in turns. "
            "ratio: eager divided by compiled. limit: the time to copy the least bytes that any implementation moves, "
            "or to compute the products at the rate of one large product; measured in the same run." + gradients,
            _width(),
        )
    )


def remarks(report: Report) -> list[str]:
    """Returns what a reader must know of the whole run: noise, and cases that were not measured."""
    lines = []
    if noisy := sum(any(spread.noisy for spread in row.times.values()) for row in report.rows):
        lines.append(
            f"noisy: in {noisy} of {len(report.rows)} cases the quartiles are more than {100 * NOISE:.0f} % of the "
            "median apart; measure again on an idle machine"
        )
    if report.stopped:
        lines.append(f"interrupted: {len(report.rows)} cases were measured, {report.stopped} were not")
    return lines


def rows_by_function(rows: Iterable[Row]) -> dict[str, list[Row]]:
    by_function: dict[str, list[Row]] = {}
    for row in rows:
        by_function.setdefault(row.function, []).append(row)
    return by_function


def varying_axes(rows: Sequence[Row]) -> tuple[dict[str, str], str]:
    """Returns the axes in which the rows differ, with their shortest names, and what all rows share: `dtype f32`."""
    names = list(dict.fromkeys(name for row in rows for name in row.axes))
    varying = [name for name in names if len({row.axes.get(name) for row in rows}) > 1]
    last = {name: name.rpartition(".")[2] for name in names}
    short = {name: last[name] if list(last.values()).count(last[name]) == 1 else name for name in names}
    shared = ", ".join(_axis_value(short[name], rows[0].axes[name]) for name in names if name not in varying)
    return {name: short[name] for name in varying}, shared


def _axis_value(axis: str, label: str) -> str:
    """`dtype f32`; but `beta1`, `backward` and `static`, which need no name."""
    return label if label.startswith(axis) or axis in COMPILE_KEYWORDS else f"{axis} {label}"


def title(function: str, shared: str) -> str:
    return f"{function}: {shared}" if shared else function


def cells(rows: Sequence[Row], axes: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """Returns the header, and the cells of each row."""
    header = [*axes.values(), "eager µs", "compiled µs", "ratio", "limit µs", "limit/eager", "limit/compiled"]
    lines = [
        [
            *(row.axes.get(name, "") for name in axes),
            median_and_iqr(row.times["eager"]),
            median_and_iqr(row.times["compiled"]),
            f"{row.ratio:.2f}×",
            f"{row.limit.kind} {three_digits(row.limit.us)}",
            f"{100 * row.fraction_of_limit('eager'):.0f} %",
            f"{100 * row.fraction_of_limit('compiled'):.0f} %",
        ]
        for row in rows
    ]
    return header, lines


def _function(name: str, rows: Sequence[Row]) -> list[str]:
    axes, shared = varying_axes(rows)
    header, lines = cells(rows, axes)
    table = aligned(header, lines, left=len(axes), red=[row.is_slower for row in rows])
    limits = textwrap.wrap(limits_line(rows), _width(), subsequent_indent="      ")
    return [heading(title(name, shared)), table, *limits, *_loss_lines(rows, axes)]


def limits_line(rows: Sequence[Row]) -> str:
    """`limit: copy of 0.30 MB at 139.2 GB/s`: for each amount, the smallest first, the median of its rates."""
    rates: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        amount = row.limit.flops if row.limit.kind == "product" else row.limit.bytes
        rates.setdefault((row.limit.kind, amount), []).append(row.limit.rate)
    limits = []
    for (kind, amount), measured in sorted(rates.items())[:_MAX_AMOUNTS]:
        unit = "FLOP" if kind == "product" else "B"
        limits.append(f"{kind} of {scaled(amount, unit)} at {scaled(statistics.median(measured), unit)}/s")
    more = [f"{len(rates) - _MAX_AMOUNTS} more"] if len(rates) > _MAX_AMOUNTS else []
    return f"limit: {', '.join([*limits, *more])}"


def scaled(value: float, unit: str) -> str:
    """`0.30 MB`, `139 GB`, `1.2 TFLOP`; amounts below a thousand stay as they are."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{three_digits(value / factor)} {letter}{unit}"
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
    """Returns (rows, reasons) for the rows in which compiled is slower. Rows with the same reasons come together."""
    by_reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.is_slower:
            label = " ".join(row.axes.get(name, "") for name in axes) or row.case.partition("/")[2]
            by_reasons.setdefault("; ".join(row.why), []).append(f"{label} ({1 / row.ratio:.1f}× slower)")
    return [(", ".join(labels), reasons) for reasons, labels in by_reasons.items()]


def _loss_lines(rows: Sequence[Row], axes: Mapping[str, str]) -> list[str]:
    slower = losses(rows, axes)
    if not slower:
        return []
    lines = [f"compiled is slower in {sum(row.is_slower for row in rows)} of {len(rows)}:"]
    for labels, reasons in slower:
        lines += textwrap.wrap(f"{labels}: {reasons}", _width(), initial_indent="  ", subsequent_indent="      ")
    return lines


def _width() -> int:
    return min(_MAX_WIDTH, width())


def median_and_iqr(spread: Spread) -> str:
    return f"{three_digits(spread.median)} ({three_digits(spread.iqr)})"


def three_digits(value: float) -> str:
    """Three digits, at most two of them after the point: 0.04, 3.62, 61.9, 1240."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
