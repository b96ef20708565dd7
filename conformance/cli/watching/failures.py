"""What an edited file raised, in one line or two: where, and what."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Collection

from conformance.errors import ConformanceError, first_line


def failure_text(error: BaseException, files: Collection[str]) -> str:
    """`/src/test_flip.py:12: NameError: name 'y' is not defined`, and the line of the file below it.

    `files`: those that a user edits. The innermost line of them is named, or else of torch. A message of this package
    stays as it is.
    """
    cause = error
    while isinstance(cause, ConformanceError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, ConformanceError):
        return str(cause)
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{cause.filename}:{cause.lineno}: {type(cause).__name__}: {cause.msg}"
    text = f"{type(cause).__name__}: {first_line(cause)}"
    frames = traceback.extract_tb(cause.__traceback__)
    theirs = [each for each in frames if each.filename in files] or [
        each for each in frames if f"{os.sep}torch{os.sep}" in each.filename
    ]
    if not theirs:
        return text
    file, number = theirs[-1].filename, theirs[-1].lineno or 0
    return f"{file}:{number}: {text}\n    {linecache.getline(file, number).strip()}"
