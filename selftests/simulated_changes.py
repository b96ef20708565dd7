"""Changes of the compiler, simulated in the stored texts."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from pathlib import Path

from conformance.storage.snapshots import Store

REPOSITORY = Path(__file__).parents[1]
TORCH = "2.13"


#: A load that ends with a name. If the name changes and a keyword is added after it, both changes are one edit.
TOUCHING = r"tl\.load\([^()\n]*\btmp\d+\)"
#: A call over several lines, as templates have them. An edit in it is named after its line and not after the call.
SEVERAL_LINES = r"tl\.load\(\n"
LEFT_OUT = re.compile(f"{TOUCHING}|{SEVERAL_LINES}")


@functools.cache
def stored_texts() -> list[tuple[str, str, str]]:
    """Returns (case, target, text) of all texts stored for TORCH, except those with a load that LEFT_OUT matches."""
    store = Store(REPOSITORY / "conformance" / "expected_code")
    snapshots = ((case, store.read(case)) for case in store.cases())
    texts = [(case, key[1], text) for case, s in snapshots if s for key, text in s.texts.items() if key[0] == TORCH]
    return [each for each in texts if not LEFT_OUT.search(each[2])]


def keyword(text: str) -> str:
    """Adds a keyword to every load of Triton."""
    out, end = [], 0
    for match in re.finditer(r"\btl\.load\(", text):
        depth, place = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            place += 1
        out += [text[end : place - 1], ", cache_modifier='.cg'"]
        end = place - 1
    return "".join([*out, text[end:]])


def names(text: str) -> str:
    """Renames variables in Triton and in C++."""
    return re.sub(r"tmp(?=\d|_acc\d)", "val", text)


def helper(text: str) -> str:
    """Renames the function that loads a vector in C++."""
    return re.sub(r"Vectorized<([^()<>]*)>::loadu\(", r"load_vector<\1>(", text)


def helper_of_many(text: str) -> str:
    """Renames the function that loads several vectors in C++. It is of another class, so this is another edit."""
    return re.sub(r"VectorizedN<([^()<>]*)>::loadu\(", r"load_vectors<\1>(", text)


#: Changes that are made together, and the expected title of each cause.
SIMULATED: dict[str, dict[str, Callable[[str], str]]] = {
    "keyword": {"added to `tl.load(…)`: `cache_modifier='.cg'`": keyword},
    "names": {"`tmp` → `val`": names},
    "helper": {
        "`Vectorized<T>::loadu` → `load_vector<T>`": helper,
        "`VectorizedN<T,N>::loadu` → `load_vectors<T,N>`": helper_of_many,
    },
}


def changed_kernels(text: str, change: Callable[[str], str]) -> int:
    """Returns the number of kernels of a text that the change changes."""
    blocks = re.split(r"^(?=# kernel |def call|--- )", text, flags=re.MULTILINE)
    return sum(change(block) != block for block in blocks)


def mutated(text: str, rng: random.Random) -> str:
    """Removes or doubles a line of the code, or replaces a number, operator, name or word in it."""
    lines = text.split("\n")
    start = lines.index("")
    number = rng.choice(
        [n for n, line in enumerate(lines) if n > start and re.search(r"\w", line) and line[:3] != "---"]
    )
    line = lines[number]
    kind = rng.choice(
        ["away", "twice", r"(?<![\w.])\d+", r" [+*<-] ", r"\b(?:tmp|buf|x|in_ptr)\d+\b", r"\b[a-z_]{4,}\b"]
    )
    if kind == "away":
        return "\n".join(lines[:number] + lines[number + 1 :])
    if kind == "twice" and not line.startswith("# kernel"):
        return "\n".join([*lines[:number], line, *lines[number:]])
    places = list(re.finditer(kind, line))
    # A parameter with another name would leave the name that the kernel uses undefined.
    if not places or (kind.startswith(r"\b(?:tmp") and "def " in line):
        return text
    if re.match(r"\s*(auto )?\w+ = ", line[places[0].start() :]):
        return text
    place = rng.choice(places)
    others = sorted(set(re.findall(kind, text)) - {place[0]})
    changed = line[: place.start()] + rng.choice(others or [place[0]]) + line[place.end() :]
    return "\n".join([*lines[:number], changed, *lines[number + 1 :]])
