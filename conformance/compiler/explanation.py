"""The explanation of a capture: source, graph, IR and kernels as panes of lines, the links between them, and reasons.

A link is a pair of lines of two neighbouring panes. It comes from what observers/provenance.py recorded.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.capture import invoke
from conformance.capture.model import Capture, Module
from conformance.capture.offline.compiler import kernels as offline_kernels
from conformance.capture.toolchain.assembly import AssemblyError, assembly
from conformance.cases.adhoc import AdhocCase
from conformance.cases.case import Case
from conformance.compiler.generated_lines import GeneratedLines
from conformance.compiler.ptx_lines import ptx_lines
from conformance.devices.speeds import SpeedsError, speeds_of
from conformance.devices.targets import Target
from conformance.facts import explain
from conformance.facts.kernels import describe, label
from conformance.facts.least_times import each_call
from conformance.facts.model import ObservedCapture
from conformance.facts.unfused import unfused_calls
from conformance.generated.capture_texts import facts_text, origin
from conformance.words import bytes_text, microseconds

SOURCE, GRAPH, IR, KERNEL, INSTRUCTIONS = range(5)
_PANES = ("source", "graph", "IR", "kernel")
#: Lines of the scheduler's nodes that a person reads; their loop bodies follow.
_IR_LINES = re.compile(r"(?P<fused>\w+)\.snodes\[\d+\] =$|(?P<name>\w+): \w+\(|\w+\.sizes = |\w+\.node\.kernel = ")
_ASSIGNED = re.compile(r"\s+(\w+)(?:: \"[^\"]*\")? = ")
#: What stands before the kernels of a wrapper module, between them and its calls, and after these.
_BEFORE, _BETWEEN, _AFTER = "\nasync_compile = AsyncCompile()\n", "\nasync_compile.wait(", "\nrunner = Runner("
#: Lines that no person reads: imports, and comments above a kernel that the other panes show.
_NOISE = re.compile(
    r"(import|from) |triton_helpers\.set_driver_to_gpu|#( kernel path| Source node| Graph frag| Original path|   )"
    r"|\s+filename=__file__|empty_strided_p2p = |\s+std::atomic<int> inductor_cpu|\s+inductor_cpu_"
)


@dataclass
class Pane:
    """`notes`: number of a line → what is said of it."""

    name: str
    lines: list[str] = field(default_factory=list)
    notes: dict[int, list[str]] = field(default_factory=dict)

    def note(self, line: int, texts: Iterable[str]) -> None:
        if new := list(texts):
            self.notes.setdefault(line, []).extend(new)


@dataclass
class Explanation:
    """`links`: of each pane but the last, [line, line of the next pane]. `why`: all reasons."""

    target: str
    origin: str
    facts: str
    why: str
    panes: list[Pane] = field(default_factory=lambda: [Pane(name) for name in _PANES])
    links: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in _PANES[1:]])

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def explained(capture: Capture, case: Case, target: Target, *, instructions: bool = False) -> Explanation:
    """The explanation of an explored capture.

    `instructions`: with the PTX of Triton kernels for cuda, or the assembly of C++ kernels, which are compiled for it.

    Raises FactError if no observer recorded the capture.
    """
    observed = ObservedCapture.of(capture)
    found = Explanation(
        target.name, origin(capture, target), facts_text(capture), explain.explanation(capture).rstrip()
    )
    modules = capture.complete().modules
    spots = _add_source(found, case, [module.observed.get("provenance", {}) for module in modules])
    reasons = list(_reasons(observed, target))
    for module in modules:
        calls, reasons = reasons[: len(module.observed["calls"])], reasons[len(module.observed["calls"]) :]
        _add_module(found, module, spots, calls)
    if instructions:
        _add_instructions(found, capture, target)
    found.links = [sorted(set(links)) for links in found.links]
    return found


def _reasons(observed: ObservedCapture, target: Target) -> Iterator[list[str]]:
    """What is said of each call as a whole: its number and operators, its least time, why it is a call of its own."""
    unfused, times = list(unfused_calls(observed)), _times(observed, target)
    kernels = 0
    for number, call in enumerate(observed.calls):
        name = call["name"] if call["call"] != "kernel" else describe(call)
        if call["call"] == "kernel":
            kernels += 1
            name = f"kernel {label(call, kernels)}: {name}"
        lines = [f"{name}: {times[number]}" if times else name]
        if call["call"] == "fallback":
            lines.append(f"fallback: {explain.fallback_reason(call)}")
        yield lines + list(
            dict.fromkeys(f"not fused, {names}: {why}" for calls, names, why in unfused if number in calls)
        )


def _times(observed: ObservedCapture, target: Target) -> list[str]:
    """What to say of the time of each call; nothing for a device whose speeds are not known."""
    try:
        speeds = speeds_of(target)
    except SpeedsError:
        return []
    return [
        f"at least {microseconds(call.us)} µs by estimate on {speeds.product}, bound by {call.bound}; "
        f"{bytes_text(call.read)} read, {bytes_text(call.written)} written"
        for call in each_call(observed, speeds)
    ]


# Source ---------------------------------------------------------------------------------------------------------------


def _add_source(
    found: Explanation, case: Case, provenances: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, int], list[int]]:
    """Adds the functions that the FX nodes come from. Returns (file, line) → lines of the pane.

    Of a lambda on the command line, Dynamo keeps no line: all nodes come from its only one, ("", 0).
    """
    pane, spots = found.panes[SOURCE], {}
    if isinstance(case, AdhocCase) and case.spec.lstrip().startswith("lambda"):
        pane.lines += case.spec.splitlines()
        return {("", 0): list(range(len(pane.lines)))}
    code = getattr(case.fn, "__code__", None)
    used = {(code.co_filename, code.co_firstlineno)} if code else set()
    used |= {
        (file, line) for each in provenances for frames in each.get("sources", {}).values() for file, line in frames
    }
    files = dict.fromkeys(file for file, _ in sorted(used, key=lambda spot: spot[0] != str(case.file)))
    for file in files:
        if not _is_own(file):
            continue
        for first, text in _functions(file, [line for other, line in used if other == file]):
            pane.lines += ["", f"# {Path(file).name}"] if pane.lines else [f"# {Path(file).name}"]
            for number, line in enumerate(text, first):
                spots[file, number] = [len(pane.lines)]
                pane.lines.append(line)
    return spots


def _is_own(file: str) -> bool:
    """Whether a file is the user's: not torch's and not what calls the case."""
    import torch

    others = (Path(torch.__file__).parent, Path(invoke.__file__).parent)
    return not any(folder in Path(file).parents for folder in others)


def _functions(file: str, lines: Iterable[int]) -> Iterator[tuple[int, list[str]]]:
    """(first line, text) of each function of a file that has one of the lines, in order."""
    try:
        text = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return
    spans = [
        (min([each.lineno, *(part.lineno for part in each.decorator_list)]), each.end_lineno or each.lineno)
        for each in ast.walk(tree)
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    around = (max((span for span in spans if span[0] <= line <= span[1]), default=None) for line in lines)
    chosen = {span for span in around if span}
    whole = [span for span in chosen if not any(a <= span[0] and span[1] <= b and (a, b) != span for a, b in chosen)]
    for first, last in sorted(whole):
        yield first, text.splitlines()[first - 1 : last]


# Graph, IR, kernels ---------------------------------------------------------------------------------------------------


def _add_module(
    found: Explanation, module: Module, spots: Mapping[tuple[str, int], list[int]], reasons: Sequence[list[str]]
) -> None:
    """Adds a module below the earlier ones."""
    provenance = module.observed.get("provenance", {"sources": {}, "ops": {}, "calls": [], "lines": []})
    nodes = _add_graph(found.panes[GRAPH], module)
    for node, line in nodes.items():
        frames = [("", 0), *map(tuple, provenance["sources"].get(node, ()))]
        found.links[SOURCE] += [(spot, line) for frame in frames for spot in spots.get(frame, ())]
    heads, bodies = _add_ir(found.panes[IR], module)
    for name, operation in provenance["ops"].items():
        found.links[GRAPH] += [
            (nodes[each], head) for each in operation["origins"] if each in nodes for head in heads.get(name, ())
        ]
        for part, node in operation["body"].items():
            found.links[GRAPH] += [(nodes[node], line) for line in bodies.get((name, part), ()) if node in nodes]
    _add_kernels(found, module, heads, bodies, reasons)


def _begin(pane: Pane) -> int:
    """The number of the first line of a further module."""
    pane.lines += [""] if pane.lines else []
    return len(pane.lines)


def _add_graph(pane: Pane, module: Module) -> dict[str, int]:
    """Returns the name of each FX node → its line."""
    start = _begin(pane)
    text = re.sub(r"\x1b\[[0-9;]*m", "", module.graph)
    text = re.sub(r"^[ \t]*# (?:File|No stacktrace found|Annotation).*\n", "", text, flags=re.MULTILINE)
    pane.lines += [f"# {module.kind}", *(line for line in text.strip().splitlines() if line.strip())]
    found = ((number, _ASSIGNED.match(line)) for number, line in enumerate(pane.lines[start:], start))
    return {match[1]: number for number, match in found if match}


def _add_ir(pane: Pane, module: Module) -> tuple[dict[str, list[int]], dict[tuple[str, str], list[int]]]:
    """Returns scheduler node → its head lines, and (scheduler node, operation) → the lines of loop bodies."""
    _begin(pane)
    pane.lines.append(f"# {module.kind}, after fusion")
    heads: dict[str, list[int]] = {}
    bodies: dict[tuple[str, str], list[int]] = {}
    node, in_body = "", False
    for line in re.sub(r" at 0x[0-9a-f]+", "", module.ir_post_fusion).splitlines():
        in_body = line.startswith("class ") or (in_body and line.startswith(" "))
        match = None if in_body else _IR_LINES.match(line)
        if not (in_body or match):
            continue
        if match and match["fused"]:
            continue  # the next line is its head
        if match and match["name"]:
            node = match["name"]
            for name in re.findall(r"op\d+", node) or [node]:
                heads.setdefault(name, []).append(len(pane.lines))
        elif in_body and (assigned := _ASSIGNED.match(line)):
            bodies.setdefault((node, assigned[1]), []).append(len(pane.lines))
        pane.lines.append(line)
    return heads, bodies


def _add_kernels(
    found: Explanation,
    module: Module,
    heads: Mapping[str, list[int]],
    bodies: Mapping[tuple[str, str], list[int]],
    reasons: Sequence[list[str]],
) -> None:
    pane = found.panes[KERNEL]
    start = _begin(pane)
    pane.lines += [f"# {module.kind}", *_own_lines(module.code)]
    generated = GeneratedLines(pane.lines, start, module.observed)
    for line, name, part in generated.operations():
        found.links[IR] += [(other, line) for other in bodies.get((name, part), ())]
    fused: dict[int, set[str]] = {}
    for name, lines in heads.items():
        for head in lines:
            fused.setdefault(head, set()).add(name)
    for line, names in generated.whole_calls():
        found.links[IR] += [(head, line) for head, parts in fused.items() if parts <= set(names)]
    nests_of = module.observed.get("provenance", {}).get("calls", [])
    for number, call in enumerate(module.observed["calls"]):
        place = generated.head_of(number)
        if place is None:
            continue
        pane.note(place, reasons[number])
        for names, texts in zip(nests_of[number], explain.vectorisation_of_nests(call), strict=False):
            of_nest = generated.first_line(call, names)
            pane.note(place if of_nest is None else of_nest, texts)


def _own_lines(code: str) -> Iterator[str]:
    """The kernels and calls of a module, without what Inductor writes around those of all modules."""
    body = (code.partition(_BEFORE)[2] or code).partition(_AFTER)[0].strip("\n")
    kernels, found, calls = body.partition(_BETWEEN)
    text = f"{kernels}\n    def call({calls.partition('    def call(')[2]}" if found else body
    yield from filter(_is_shown, text.splitlines())


def _is_shown(line: str) -> bool:
    return bool(line.strip()) and not _NOISE.match(line)


# Instructions ---------------------------------------------------------------------------------------------------------

_CPP = re.compile(r"^(\w+) = async_compile\.cpp(?:_pybinding)?\(.*?r'''(.*?)'''\)", re.MULTILINE | re.DOTALL)


def _add_instructions(found: Explanation, capture: Capture, target: Target) -> None:
    """Adds a pane with the instructions of each kernel; equal kernels of several modules once."""
    if target.family == "cuda":
        triton = {(each.name, each.text): each for each in offline_kernels(capture)}
        _add_pane(found, "PTX", {key: list(ptx_lines(kernel)) for key, kernel in triton.items()})
    elif target.device == "cpu":
        texts = dict.fromkeys(match for module in capture.modules for match in _CPP.findall(module.code))
        _add_pane(found, "assembly", _assembly(list(texts), target))


def _assembly(kernels: Sequence[tuple[str, str]], target: Target) -> dict[tuple[str, str], list[tuple[str, int]]]:
    if not kernels:
        return {}
    try:
        lines = assembly([text for _, text in kernels], target.isa)
    except AssemblyError as error:
        return {kernels[0]: [(f"// {line}", 0) for line in str(error).splitlines()]}
    return {key: [(f"{key[0]}:", 0), *each] for key, each in zip(kernels, lines, strict=True)}


def _add_pane(found: Explanation, name: str, kernels: Mapping[tuple[str, str], Sequence[tuple[str, int]]]) -> None:
    """`kernels`: name and text → (instruction, number of the text's line)."""
    if not kernels:
        return
    pane, above = Pane(name), found.panes[KERNEL].lines
    found.panes.append(pane)
    found.links.append([])
    end = 0
    for (function, text), lines in kernels.items():
        # A user's kernel has a number after its name, and none in the call.
        begins = re.compile(rf"{function} = |\w+ = async_compile\.triton\('{function}', ")
        start = next((number for number in range(end, len(above)) if begins.match(above[number])), None)
        own = [number for number, line in enumerate(text.split("\n"), 1) if _is_shown(line)]
        places = {} if start is None else {number: start + place for place, number in enumerate(own, 1)}
        end = end if start is None else start + 1
        for line, number in lines:
            if number in places:
                found.links[-1].append((places[number], len(pane.lines)))
            pane.lines.append(line)
