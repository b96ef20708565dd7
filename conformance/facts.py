"""Facts: what a compiler engineer would say of a capture, in few words: kernels, vectorisation, fallbacks, and so on.

Requirements compare values; snapshots store lines. Both are the same on every run: nothing here counts buffers,
names files or follows the order of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.model import Capture

#: Every name, in the order of the lines, for whoever checks a requirement before anything is captured.
NAMES = ("kernels", "kinds", "vectorised", "extern", "fallbacks", "patterns", "graph_breaks")


class FactError(LookupError):
    """A fact that does not exist, or that the capture cannot tell; the message names those that do exist."""


@dataclass(frozen=True)
class Fact:
    """`value`: JSON-able, what a requirement compares with. `lines`: for the reader; none where another fact shows it.

    `parts`: finer values, asked for as `name.part`; `absent`: the value of a part that is not there, None for an error.
    """

    value: Any
    lines: tuple[str, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    absent: Any = None


class Facts:
    """An ordered mapping of name → Fact."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self._facts = dict(facts)

    def __iter__(self):
        return iter(self._facts)

    def __getitem__(self, name: str) -> Fact:
        return self._facts[name]

    def value(self, name: str) -> Any:
        """The value of `kernels`, or of a part: `kernels.backward`, `patterns.fuse_attention`, `extern.mm`.

        Raises FactError for a name that is unknown, or unknown for this capture's device.
        """
        whole, _, part = name.partition(".")
        if whole not in self._facts:
            only = " (it is one of cpu captures only)" if whole == "vectorised" else ""
            raise FactError(f"no fact {name!r}{only}: known are {', '.join(self._facts)}")
        fact = self._facts[whole]
        if not part:
            return fact.value
        if part not in fact.parts and fact.absent is None:
            known = ", ".join(f"{whole}.{each}" for each in fact.parts) or "none"
            raise FactError(f"{whole!r} has no part {part!r}: known are {known}")
        return fact.parts.get(part, fact.absent)

    def lines(self) -> dict[str, str]:
        """Texts by name; of several lines where there is more to say, those after the first indented by two."""
        return {name: "\n  ".join(fact.lines) for name, fact in self._facts.items() if fact.lines}

    def to_json(self) -> dict[str, Any]:
        return {name: fact.value for name, fact in self._facts.items()}


def facts(capture: Capture) -> Facts:
    """All facts of a capture, by name; raises FactError where it was made without observing.

    `kernels`: how many calls of generated kernels, library calls and fallbacks not among them; `.forward`, `.backward`.
    `kinds`: the kinds of those kernels in their order; `kinds.persistent reduction` counts one kind.
    `vectorised` (cpu): yes, no, partly, or none where no kernel has a loop.
    `extern`, `fallbacks`: the names that are called, in order; `extern.mm`, `fallbacks.aten.sort` count one.
    `patterns`: rewrites and how often; `patterns.fuse_attention` is 0 where it did not happen.
    `graph_breaks`: how many.
    """
    calls = _calls(capture)
    cpp = any("cpu" in module.observed["devices"] for module in capture.modules)
    extractors: dict[str, Callable[[], Fact]] = {"kernels": lambda: _kernels(calls), "kinds": lambda: _kinds(calls)}
    if cpp:
        extractors["vectorised"] = lambda: _vectorised(calls)
    extractors["extern"] = lambda: _called(calls, "extern")
    extractors["fallbacks"] = lambda: _called(calls, "fallback")
    extractors["patterns"] = lambda: _patterns(capture.counters.get("inductor", {}))
    extractors["graph_breaks"] = lambda: _graph_breaks(capture.counters.get("graph_break", {}))
    return Facts({name: extract() for name, extract in extractors.items()})


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What differs between two `lines()`, one entry a fact: `vectorised  yes → no: load index … is not contiguous`.

    An entry has several lines where the facts have: those that went (-) and those that came (+), below the first ones.
    """
    entries = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name, "not known").split("\n"), new.get(name, "not known").split("\n")
        if before == after:
            continue
        first = f"{name}  {before[0]} → {after[0]}" if before[0] != after[0] else f"{name}  {after[0]}, but otherwise"
        gone = [f"  - {line.strip()}" for line in before[1:] if line not in after[1:]]
        come = [f"  + {line.strip()}" for line in after[1:] if line not in before[1:]]
        if before[0] != after[0] or gone or come:
            entries.append("\n".join([first, *gone, *come]))
        else:
            entries.append(f"{name}  {after[0]}, but in another order")
    return entries


# Extractors -----------------------------------------------------------------------------------------------------------


def _calls(capture: Capture) -> list[dict[str, Any]]:
    """Everything that the modules call, in order, each with the `module` that it is of."""
    calls = []
    kinds = [module.kind for module in capture.modules]
    for number, module in enumerate(capture.modules, 1):
        if "calls" not in module.observed:
            raise FactError(f"module {number} ({module.kind}) was not observed: capture it with observe.patches()")
        label = module.kind if kinds.count(module.kind) == 1 else f"graph {number} {module.kind}"
        calls += [{**call, "module": "" if len(kinds) == 1 else label} for call in module.observed["calls"]]
    return calls


def _kernels(calls: list[dict[str, Any]]) -> Fact:
    kernels = [call for call in calls if call["call"] == "kernel"]
    parts = {"forward": 0, "backward": 0}
    for kernel in kernels:
        module = kernel["module"] or "forward"
        part = "backward" if module.endswith("backward") else "forward"
        parts[part] += 1
    texts = [f"{_label(kernel, number)}: {_describe(kernel)}" for number, kernel in enumerate(kernels, 1)]
    if len(texts) <= 1:
        return Fact(len(kernels), tuple(texts) or ("none",), parts)
    return Fact(len(kernels), (str(len(kernels)), *texts), parts)


def _label(kernel: Mapping[str, Any], number: int) -> str:
    return f"{number} {kernel['module']}".strip()


def _describe(kernel: Mapping[str, Any]) -> str:
    """`flip (pointwise 672x224, parallel)`; sizes in brackets are reduced."""
    details = []
    nests = kernel.get("nests") or []
    if nests:
        together = len(nests) > 1 and all(nest["outer_loop"] for nest in nests)
        shapes = [f"{nest['kind']} {_shape(nest)}" for nest in nests]
        parallel = [{"yes": "parallel", "no": "serial", "reduction": "parallel"}[nest["parallel"]] for nest in nests]
        if len(set(parallel)) == 1:
            details += [" + ".join(shapes) + (" in one outer loop" if together else ""), parallel[0]]
        else:
            details.append(" + ".join(f"{shape} {how}" for shape, how in zip(shapes, parallel, strict=True)))
    else:
        details.append(f"{kernel['kind']} {_shape(kernel)}" if kernel.get("ranges") is not None else kernel["kind"])
    if kernel.get("split"):
        details.append(f"{kernel['split']} half of a split")
    return f"{', '.join(kernel['ops']) or 'no operator'} ({', '.join(details)})"


def _shape(loops: Mapping[str, Any]) -> str:
    """`64x[1000]`: 64 reductions over 1000 elements each."""

    def plain(size: str) -> str:
        return size if size.isalnum() else f"({size})"

    points = [plain(size) for size in loops["ranges"] if size != "1"]
    reduced = [f"[{size}]" for size in loops["reduced"]]
    return "x".join(points + reduced) or "1"


def _kinds(calls: list[dict[str, Any]]) -> Fact:
    """The kinds of kernels in their order; shown by `kernels`."""
    kinds = [call["kind"] for call in calls if call["call"] == "kernel"]
    return Fact(kinds, (), {kind: kinds.count(kind) for kind in kinds}, absent=0)


def _vectorised(calls: list[dict[str, Any]]) -> Fact:
    """One of yes, no, partly and none (no loop); with reasons, one for each loop nest where they differ."""
    kernels = [call for call in calls if call["call"] == "kernel"]
    found = []  # (label, word, text)
    for number, kernel in enumerate(kernels, 1):
        nests = [nest for nest in kernel.get("nests", []) if nest["vectorised"]]
        for position, nest in enumerate(nests, 1):
            label = _label(kernel, number) + (f" nest {position}" if len(nests) > 1 else "")
            found.append((label, nest["vectorised"], f"{nest['vectorised']}: {nest['reason']}"))
    words = list(dict.fromkeys(word for _, word, _ in found))
    texts = list(dict.fromkeys(text for _, _, text in found))
    if not found:
        return Fact("none", ("none: no loop",))
    word = words[0] if len(words) == 1 else "partly"
    if len(texts) == 1:
        return Fact(word, (texts[0],))
    return Fact(word, (word, *(f"{label}: {text}" for label, _, text in found)))


def _called(calls: list[dict[str, Any]], what: str) -> Fact:
    """Names in the order of the calls; told apart by module in the text."""
    names: dict[str, list[str]] = {}
    for call in calls:
        if call["call"] == what:
            names.setdefault(call["module"], []).append(call["name"])
    flat = [name for each in names.values() for name in each]
    text = "; ".join(f"{module} {', '.join(each)}".strip() for module, each in names.items())
    return Fact(flat, (text or "none",), {name: flat.count(name) for name in flat}, absent=0)


#: Rewrites that change what is computed how; Inductor's other counters count bookkeeping or depend on caches.
_PATTERNS = (
    "fuse_attention",
    "pad_mm",
    "decompose_mm",
    "decompose_bmm",
    "decompose_addmm",
    "binary_folding",
    "efficient_conv_bn_eval",
    "pad_rewritten_as_cat",
    "removed_pointless_view_pair",
    "partitioned_scatter_applied",
    "batch_linear",
    "group_linear",
)


def _patterns(counters: Mapping[str, int]) -> Fact:
    found = {name: counters[name] for name in _PATTERNS if counters.get(name)}
    found |= {
        name: count
        for name, count in sorted(counters.items())
        if count and name.endswith("_matcher_count") and name != "pattern_matcher_count"
    }
    text = ", ".join(name if count == 1 else f"{name} {count} times" for name, count in found.items())
    return Fact(found, (text or "none",), found, absent=0)


def _graph_breaks(reasons: Mapping[str, int]) -> Fact:
    """Their number; of each reason the first line, which holds no stack and no path."""
    short: dict[str, int] = {}
    for reason, count in reasons.items():
        line = reason.strip().split("\n")[0]
        short[line] = short.get(line, 0) + count
    total = sum(short.values())
    texts = [line if count == 1 else f"{line} ({count} times)" for line, count in short.items()]
    return Fact(total, (str(total), *texts) if texts else ("none",))
