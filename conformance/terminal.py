"""Output for people: rich's colours, tables and progress on a terminal; exact plain text everywhere else.

rich is imported where it draws: `--help` and piped text do not wait for it.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_WIDTH = 120  # columns where there is no terminal
_UNFOLDED = 1_000_000  # columns: no line is longer
_DIFF_STYLES = {"--- ": "bold", "+++ ": "bold", "-": "red", "+": "green", "@": "cyan"}


def has_colour() -> bool:
    """Whether stdout shows colours: a terminal that can, without NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Returns the columns of the terminal, or 120 without a terminal. The variable COLUMNS overrides both."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def styled(text: str, style: str) -> str:
    """Returns the text in a style of rich, such as "red" or "bold". Plain where stdout shows no colours."""
    if not (text and has_colour()):
        return text
    from rich.style import Style

    return Style.parse(style).render(text)


def heading(text: str) -> str:
    return styled(text, "bold")


def diff_line(line: str) -> str:
    """Returns a line of a unified diff in its colour."""
    style = next((style for start, style in _DIFF_STYLES.items() if line.startswith(start)), "")
    return styled(line, style) if style else line


def text_in_colour(text: Text) -> str:
    """Returns a text of rich with its colours. Its lines are not folded."""
    return _drawn(text, _UNFOLDED)


def table_text(table: Table) -> str:
    """Returns a table of rich as lines. A terminal gets it in colour and in its width; a pipe gets its full width."""
    lines = _drawn(table, width() if sys.stdout.isatty() else _UNFOLDED).split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def markdown_text(text: str) -> str:
    """Returns Markdown as a terminal shows it: headings, tables and code in colour. Elsewhere it stays as it is."""
    if not sys.stdout.isatty():
        return text.rstrip("\n")
    from rich.markdown import Markdown

    return _drawn(Markdown(text, hyperlinks=False), width()).rstrip("\n")


def _drawn(renderable: RenderableType, columns: int) -> str:
    from rich.console import Console

    colour = has_colour()
    console = Console(
        file=io.StringIO(),
        width=columns,
        force_terminal=colour,
        color_system="auto" if colour else None,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(renderable, end="")
    return capture.get()


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Shows a bar on stderr while stderr is a terminal. Call the function with a label when the next of `total` starts.

    No thread redraws the bar: a thread would disturb what `bench` measures.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _label: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    console.width -= 3  # the terminal writes ^C at the end of the line
    label_column = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    with Progress(
        MofNCompleteColumn(),
        BarColumn(20, complete_style="green"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False, table_column=label_column),
        console=console,
        expand=True,
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # lines that are printed meanwhile go above the bar; a pipe stays a pipe
    ) as bar:
        task = bar.add_task("", total=total)
        started = False

        def start(label: str) -> None:
            nonlocal started
            bar.update(task, description=label, advance=int(started), refresh=True)
            started = True

        yield start


@contextlib.contextmanager
def recorded_interruptions() -> Iterator[list[int]]:
    """Records each Ctrl-C in the main thread: a compile, or an import of a C module, may swallow KeyboardInterrupt."""
    recorded: list[int] = []

    def interrupt(number: int, _frame: Any) -> None:
        recorded.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield recorded
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield recorded
    finally:
        signal.signal(signal.SIGINT, before)
