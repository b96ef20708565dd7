"""The kernels in stored code, by their text: which cases have the same kernel as another case, or nearly the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from conformance.storage.snapshots import Store

_HEADING = re.compile(r"^# kernel (\S+)\n", re.MULTILINE)
#: What follows a kernel in the stored text: the next one, the calls, the next module or facts.
_END = re.compile(r"^(?:# kernel |def call\(|def partition_|--- |== )", re.MULTILINE)
#: A number by itself: no part of a name, and no number with a point or an exponent.
_SIZE = re.compile(r"(?<![\w.])\d+L?(?![\w.])")
_COMMENTS = re.compile(r"\A(?:#.*\n|\n)+")


@dataclass
class SimilarKernels:
    """The cases with a kernel of this text, and those with a kernel that differs in integers alone, such as sizes."""

    same: list[str] = field(default_factory=list)
    but_for_sizes: list[str] = field(default_factory=list)


class StoredKernels:
    """The kernels that stores have for a torch version and a target. Reads all files of the stores."""

    def __init__(self, stores: Iterable[Store], torch: str, target: str) -> None:
        self._same: dict[str, dict[str, None]] = {}
        self._but_for_sizes: dict[str, dict[str, None]] = {}
        for store in stores:
            for case in store.cases():
                snapshot = store.read(case)
                for text in _kernel_texts((snapshot and snapshot.text(torch, target)) or ""):
                    self._same.setdefault(text, {})[case] = None
                    self._but_for_sizes.setdefault(_without_sizes(text), {})[case] = None

    def similar(self, text: str) -> SimilarKernels:
        """`text`: of a kernel, see normalize.wrapper_modules.kernel_texts."""
        text = _without_comments(text)
        same = self._same.get(text, {})
        nearly = self._but_for_sizes.get(_without_sizes(text), {})
        return SimilarKernels(list(same), [case for case in nearly if case not in same])


def kernel_digest(text: str) -> str:
    """`0x3f7c0a52b19e4d68`: of a kernel's text, without its name and the comments above it."""
    return f"0x{hashlib.sha256(_without_comments(text).encode()).hexdigest()[:16]}"


def _kernel_texts(stored: str) -> Iterator[str]:
    for found in _HEADING.finditer(stored):
        end = _END.search(stored, found.end())
        text = stored[found.end() : end.start() if end else len(stored)]
        yield _without_comments(re.sub(rf"(?<![\w.]){re.escape(found[1])}(?!\w)", "kernel", text))


def _without_comments(text: str) -> str:
    """Without the heading and the comments at the beginning: which operators a kernel comes from, and its options."""
    return _COMMENTS.sub("", text).rstrip("\n") + "\n"


def _without_sizes(text: str) -> str:
    return _SIZE.sub("N", text)
