"""Facts of Metal kernels, read from the source that Inductor generated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

_GROUP = re.compile(r"group_size=\[([^\]]*)\]")
_REDUCTION = re.compile(r"c10::metal::threadgroup_(\w+)\(")
_ANY = re.compile(r"threadgroup bool tmp_acc_\d+;")
_SIMD = re.compile(r"\b(simd_\w+|simdgroup_\w+)\b")
_LOOP = re.compile(r"for\(auto \w+_cnt = 0;")


def threadgroups(texts: Sequence[str]) -> tuple[Any, str]:
    """The sizes of the groups that kernels are launched in, where the code chooses them."""
    sizes = [found[1].replace(", ", "x") for text in texts for found in _GROUP.finditer(text)]
    return sizes, ", ".join(sizes) or "none: each thread works alone"


def reductions(texts: Sequence[str]) -> tuple[Any, str]:
    """The reductions over a threadgroup, in order, and how many loops a thread runs over what a group cannot hold."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update(_REDUCTION.findall(text))
        found["any"] += len(_ANY.findall(text))
    found = +found
    loops = sum(len(_LOOP.findall(text)) for text in texts)
    line = ", ".join(f"{count} {name}" for name, count in sorted(found.items())) or "none"
    return dict(sorted(found.items())), line + (f"; {loops} loops: more than 1024 elements" if loops else "")


def simdgroup_operations(texts: Sequence[str]) -> tuple[Any, str]:
    """The functions of simdgroups that kernels name themselves, without those inside of torch's headers."""
    found = Counter(name for text in texts for name in _SIMD.findall(text))
    return dict(sorted(found.items())), ", ".join(f"{n} {name}" for name, n in sorted(found.items())) or "none"


FACTS = {"threadgroups": threadgroups, "reductions": reductions, "simdgroup_operations": simdgroup_operations}
