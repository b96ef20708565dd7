"""The short form of what compiling or a call raises: the message, the operator, the author's line. No more lines.

Messages of Inductor print its IR, some twice, and a traceback has a hundred frames. Both go into a file.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance.errors import first_line

#: The most lines of the short form; those that the caller adds come on top.
MOST = 18
#: Of a message, so many lines at its beginning and at its end are kept, and so many with "error" between them.
_FIRST, _LAST, _ERRORS = 5, 3, 3
#: Of a captured section, so many lines at its beginning and at its end are shown.
_BEGINS, _CLOSES = 1, 2
#: The most characters of a line.
_WIDTH = 400
_PACKAGE = Path(__file__).parents[2]
#: What torch puts after its own message.
_ENDS = re.compile(
    r"^\s*(?:target: |args\[0\]: |kwargs: |from user code:|Found from ?:|Set TORCHDYNAMO_VERBOSE|Developer debug)"
)
#: Lines of torch's messages that say nothing about this error.
_IDLE = re.compile(
    r"^\s*(?:$|Hint: Your code may result in an error when running in eager|For more details about this)"
)
_OPERATOR = re.compile(r"^\s*target: (\S+)|\bcall_(?:function|method) (\S+?)\(", re.MULTILINE)
_FRAME = re.compile(
    r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>\S+?),?\n\s*(?P<text>[^\n]*)', re.MULTILINE
)


def short_form(error: BaseException, case_file: Path) -> list[str]:
    """The type and the message of an exception, the operator, the author's line, and where it was raised.

    `case_file`: a frame in it is the author's before those of other files.
    """
    text = str(error)
    lines = [f"{type(error).__name__}: {first_line(error)}", *_more_of_message(text)]
    if operator := _OPERATOR.search(text):
        lines.append(f"operator: {operator[1] or operator[2]}")
    lines += _author_lines(error, text, case_file)
    if place := _innermost_frame_of_torch(error):
        lines.append(f"raised in {place}")
    return [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines][:MOST]


def short_sections(sections: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """What pytest captured beside an exception, with few lines of what was logged: torch logs whole tracebacks."""
    return [(name, _short_log(text) if "stdout" not in name else text) for name, text in sections]


def _short_log(text: str) -> str:
    lines = text.splitlines()
    left = len(lines) - _BEGINS - _CLOSES
    if left <= 1:
        return text
    kept = [*lines[:_BEGINS], f"… {left} more lines: pytest -v shows them …", *lines[-_CLOSES:]]
    return "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in kept)


def _more_of_message(text: str) -> list[str]:
    """The lines after the first one, without IR and advice for everybody."""
    own: list[str] = []
    for line in text.strip().splitlines()[1:]:
        if _ENDS.match(line):
            break
        if not _IDLE.match(line):
            own.append(line)
    if len(own) <= _FIRST + _LAST + _ERRORS:
        return own
    middle = own[_FIRST:-_LAST]
    kept = [line for line in middle if "error" in line.lower()][:_ERRORS]
    left = len(middle) - len(kept)
    return [*own[:_FIRST], *kept, f"… {left} more line{'s' * (left != 1)} …", *own[-_LAST:]]


def _author_lines(error: BaseException, text: str, case_file: Path) -> list[str]:
    """`in ops/test_it.py:12, test_it: return x.sin()`: the innermost frame of the author's code."""
    named = [(each["file"], int(each["line"]), each["name"], each["text"]) for each in _FRAME.finditer(text)]
    ran = [(frame.filename, frame.lineno or 0, frame.name, frame.line or "") for frame in _frames(error)]
    for frames in (named, ran):
        own = [frame for frame in frames if _is_of_author(frame[0])]
        in_case = [frame for frame in own if Path(frame[0]).name == case_file.name]
        if own:
            file, line, name, source = (in_case or own)[-1]
            return [f"in {os.path.relpath(file)}:{line}, {name}: {source.strip()}"]
    return []


def _is_of_author(file: str) -> bool:
    path = Path(file)
    is_ours = path.is_relative_to(_PACKAGE) and not path.name.startswith("test_")
    is_installed = "site-packages" in path.parts or "dist-packages" in path.parts or _is_torch(file)
    return path.is_file() and not is_ours and not (is_installed and not path.name.startswith("test_"))


def _is_torch(file: str) -> bool:
    return "/torch/" in file.replace(os.sep, "/")


def _innermost_frame_of_torch(error: BaseException) -> str:
    """`torch/_inductor/lowering.py:1234, in sum_`: of the exception that came first; "" where torch raised nothing."""
    for each in reversed(list(_chain(error))):
        frames = [frame for frame in traceback.extract_tb(each.__traceback__) if _is_torch(frame.filename)]
        if frames and _is_torch(traceback.extract_tb(each.__traceback__)[-1].filename):
            path = frames[-1].filename.replace(os.sep, "/").rpartition("/torch/")[2]
            return f"torch/{path}:{frames[-1].lineno}, in {frames[-1].name}"
    return ""


def _frames(error: BaseException) -> Sequence[traceback.FrameSummary]:
    return [frame for each in _chain(error) for frame in traceback.extract_tb(each.__traceback__)]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what caused it, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
