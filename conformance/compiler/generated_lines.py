"""The lines of a wrapper module, and which operations and calls they were generated from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

#: Inductor writes a load's policy last, when it knows all loads.
_POLICY = re.compile(r"eviction_policy='[^']*'")


#: So many lines after one decide to which of several loop nests it belongs.
_AHEAD = 12

#: Of a kernel object: text of a line → (scheduler node, operation) of those that it was generated from.
_Recorded = dict[str, list[tuple[str, str]]]


class GeneratedLines:
    """`lines`: of a pane; those of the module begin at `start`. `observed`: what the observers recorded of it."""

    def __init__(self, lines: Sequence[str], start: int, observed: Mapping[str, Any]) -> None:
        self._lines, self._start = lines, start
        self._provenance = observed.get("provenance", {"ops": {}, "calls": [], "lines": []})
        self._ends = [number for number in range(start, len(lines)) if lines[number].startswith("'''")]
        self._calls = [
            (call, [name for nest in nests for name in nest])
            for call, nests in zip(self._named(observed["calls"]), self._provenance["calls"], strict=False)
        ]
        self._links = list(self._matched())

    def operations(self) -> list[tuple[int, str, str]]:
        """(line, scheduler node, operation): from which operation of which loop body a line is generated."""
        return self._links

    def whole_calls(self) -> Iterator[tuple[int, Sequence[str]]]:
        """(line, scheduler nodes) of the lines that define a kernel, call something, or name a call's buffer."""
        for call, names in self._calls:
            for line in self._lines_of_call(call, names):
                yield line, names
            yield from self._written_before(call, names)
        for name, operation in self._provenance["ops"].items():
            for buffer in operation["buffers"]:
                pattern = re.compile(rf"\b{re.escape(buffer)} = |out={re.escape(buffer)}\b")
                yield from ((line, [name]) for line in self._wrapper() if pattern.search(self._lines[line]))

    def head_of(self, number: int) -> int | None:
        """The line that says most of a call: where its kernel begins, or where a library is called."""
        return next(self._lines_of_call(*self._calls[number]), None) if number < len(self._calls) else None

    def first_line(self, call: Mapping[str, Any], names: Iterable[str]) -> int | None:
        """The first line of a call's kernel that is generated from one of the scheduler nodes."""
        block, nodes = self._block(call.get("function", "")), set(names)
        return min((line for line, name, _ in self._links if name in nodes and line in block), default=None)

    def _named(self, calls: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The calls; a user's kernel with the name that its launch has, a library call with its number among equals."""
        seen: Counter[str] = Counter()
        for call in calls:
            user = _user_function(call)
            name = user or ("" if "function" in call else call["name"])
            number = seen[name]
            seen[name] += 1
            if user:
                launched = (re.search(rf"\b({re.escape(user)}_\d+)\.run\(", self._lines[n]) for n in self._wrapper())
                names = [match[1] for match in launched if match]
                yield {**call, "function": names[number]} if number < len(names) else {**call, "number": number}
            else:
                yield {**call, "number": number}

    def _wrapper(self) -> range:
        return range(self._ends[-1] + 1 if self._ends else self._start, len(self._lines))

    def _block(self, function: str) -> range:
        """The lines of a kernel: from its name to the end of its text."""
        first = next(
            (
                n
                for n in range(self._start, len(self._lines))
                if function and self._lines[n].startswith(f"{function} = ")
            ),
            None,
        )
        if first is None:
            return range(0)
        return range(first, next((end for end in self._ends if end > first), first))

    def _lines_of_call(self, call: Mapping[str, Any], names: Sequence[str]) -> Iterator[int]:
        if function := call.get("function", ""):
            begins = re.compile(rf'extern "C"|def {re.escape(_user_function(call) or function)}\(')
            yield from (line for line in self._block(function) if begins.match(self._lines[line]))
            yield from self._calling(rf"\b{re.escape(function)}(?:\.run)?\(")
            return
        buffers = [each for name in names for each in self._provenance["ops"].get(name, {}).get("buffers", ())]
        own = "|".join(map(re.escape, buffers)) or "(?!)"
        found = self._calling(rf"\b(?:{own}) = (?!empty_strided)[\w.]+\(|\bout=(?:{own})\b")
        # A call that changes its argument names no buffer of its own.
        yield from found or self._calling(rf"^\s*{re.escape(call['name'])}(?:\.\w+)?\(")[call["number"] :][:1]

    def _calling(self, pattern: str) -> list[int]:
        return [line for line in self._wrapper() if re.search(pattern, self._lines[line])]

    def _written_before(self, call: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
        """(line, scheduler nodes) of the lines that a template or a user wrote, and that no operation was generated to.

        Of what is fused into a C++ template, no line is known: each may come from any node.
        """
        if call.get("kind") not in ("template", "user-defined"):
            return
        block, generated = self._block(call.get("function", "")), {line for line, _, _ in self._links}
        nodes, begin = names, block.start
        if call["language"] == "triton":
            nodes = [name for name in names if not self._provenance["ops"].get(name, {}).get("body")]
            begin = next((line for line in block if self._lines[line].startswith("def ")), begin)
        yield from ((line, nodes) for line in block if line > begin and line not in generated)

    def _matched(self) -> Iterator[tuple[int, str, str]]:
        objects: dict[int, _Recorded] = {}
        for number, text, name, part in self._provenance["lines"]:
            if re.search(r"\w", text):
                objects.setdefault(number, {}).setdefault(_plain(text), []).append((name, part))
        blocks: dict[range, set[str]] = {}
        for call, names in self._calls:  # equal kernels are one
            blocks.setdefault(self._block(call.get("function", "")), set()).update(names)
        for block, nodes in blocks.items():
            own = [each for each in objects.values() if nodes & {name for parts in each.values() for name, _ in parts}]
            texts = [_plain(self._lines[line]) for line in block]
            for line, found in zip(block, _matches(texts, own), strict=True):
                yield from ((line, *each) for each in found)


def _user_function(call: Mapping[str, Any]) -> str:
    """The function that a user wrote as a kernel; "" for any other call."""
    return str(call["ops"][0]) if call.get("kind") == "user-defined" else ""


def _matches(texts: Sequence[str], objects: Sequence[_Recorded]) -> Iterator[list[tuple[str, str]]]:
    """Finds each line of a kernel in what was recorded of kernel objects, in their order.

    A C++ kernel has several loop nests, each with its own tmp0: each was an object while it was generated, and so was
    each that Inductor tried and left out. Each recorded line counts once; of several objects that have the line, the
    one counts that also has the next lines.
    """
    used: set[tuple[int, str]] = set()
    known = [(position, text) for position, text in enumerate(texts) if any(text in each for each in objects)]
    found: dict[int, list[tuple[str, str]]] = {}
    current = 0
    for number, (position, text) in enumerate(known):
        after = [each for _, each in known[number + 1 : number + 1 + _AHEAD]]
        having = [place for place, each in enumerate(objects) if text in each]
        fresh = [place for place in having if (place, text) not in used]
        follow = {place: _begins(objects[place], place, after, used) for place in having}
        current = max(fresh or having, key=lambda place: (follow[place], place == current, place >= current, -place))
        used.add((current, text))
        found[position] = objects[current][text]
    yield from (found.get(position, []) for position in range(len(texts)))


def _begins(recorded: _Recorded, place: int, texts: Iterable[str], used: Set[tuple[int, str]]) -> int:
    """How many of the texts a kernel object has in a row from the first one on, which no earlier line took."""
    count = 0
    for text in texts:
        if text not in recorded or (place, text) in used:
            break
        count += 1
    return count


def _plain(text: str) -> str:
    return _POLICY.sub("", text).strip()
