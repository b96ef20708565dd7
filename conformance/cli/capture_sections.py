"""The parts of a capture as text for whoever reads it: each a list of blocks with a title."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from conformance.capture.model import Capture
from conformance.devices.targets import Target
from conformance.harness.generator import code_text, facts_text, whole_text

#: Of a graph; the last is no stage but the captured graph as a script.
STAGES = ("captured", "joint", "forward", "backward", "runnable")


@dataclass(frozen=True)
class Block:
    """`language`: python, cpp, code (kernels of either and calls), facts, bytecode, or "" for none of these."""

    title: str
    text: str
    language: str = ""


def blocks(part: str, capture: Capture, target: Target, stages: Sequence[str] = ()) -> list[Block]:
    """`part`: one of `commands.asking.PARTS`, or "" for what a snapshot stores. `stages`: of graphs, all if empty."""
    if part == "graph":
        return list(_graphs(capture, stages))
    return list(_MAKERS[part](capture, target))


def comparable(part: str, capture: Capture, target: Target, stages: Sequence[str] = ()) -> list[Block]:
    """The same, without what differs between any two cases or targets: places in the source, the device's name."""
    if part == "graph":
        from conformance.normalize.text import graph

        stages = [stage for stage in stages if stage != "runnable"]
        found = _graphs(capture, stages, shown=lambda text: graph(text, target.device), repeat=True)
        return list(found)
    found = blocks(part, capture, target)
    if part == "ir":
        device = rf"'{target.device}(:\d+)?'"
        return [Block(each.title, re.sub(device, "device", each.text), each.language) for each in found]
    return found


def why_text(capture: Capture) -> str:
    """Why Inductor decided as it did, a reason a line."""
    from conformance.facts import explain

    return explain.why(capture).rstrip("\n")


def _whole(capture: Capture, target: Target) -> Iterator[Block]:
    yield Block("", whole_text(capture, target), "code")


def _facts(capture: Capture, _: Target) -> Iterator[Block]:
    yield Block("facts", facts_text(capture), "facts")
    if further := further_text(capture):
        yield Block("further facts", further, "facts")


def further_text(capture: Capture) -> str:
    """The facts that a snapshot does not store; empty where there are none."""
    from conformance.facts import facts
    from conformance.normalize.text import facts_block

    found = facts(capture)
    further = getattr(found, "further", None)
    return facts_block(further().lines()).rstrip("\n") if further else ""


def _why(capture: Capture, _: Target) -> Iterator[Block]:
    yield Block("why", why_text(capture), "facts")


def _ir(capture: Capture, _: Target) -> Iterator[Block]:
    for kind, module in _numbered((module.kind, module) for module in capture.complete().modules):
        before, after = _nodes(module.ir_pre_fusion), _nodes(module.ir_post_fusion)
        yield Block(f"ir: {kind}, before fusion", before, "python")
        same = "(the same: nothing was fused)"
        yield Block(
            f"ir: {kind}, after fusion", same if before == after else after, "" if before == after else "python"
        )


def _nodes(text: str) -> str:
    """As Inductor's debug folder has them, apart by a blank line, without what is the same for every node."""
    text = re.sub(r"^.*\.(min|max)_(input|order)_?\w* = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"^(?=\w+: [\w.]+\()", "\n", text, flags=re.MULTILINE)
    return text.strip("\n")


def _code(capture: Capture, target: Target) -> Iterator[Block]:
    yield Block("code", code_text(capture, target), "code")


def _raw(capture: Capture, _: Target) -> Iterator[Block]:
    for kind, module in _numbered((module.kind, module) for module in capture.modules):
        yield Block(f"raw: {kind}", module.code.strip("\n"), "code")


def _binary(capture: Capture, target: Target) -> Iterator[Block]:
    from conformance.facts import binary

    yield Block("binary", "\n".join(binary.lines(capture)) or _no_kernel(target))


def triton_stage(name: str, capture: Capture, target: Target) -> list[Block]:
    """A stage of each Triton kernel: one of capture.offline's STAGES. Raises StageError and KernelError."""
    from conformance.capture.offline import compiler

    compiler.refuse_unknown_stage(name, target.device)
    return [
        Block(f"{name}: {kernel.module}, {kernel.name}, {launch}", text.strip("\n"))
        for kernel in compiler.kernels(capture)
        for launch, text in compiler.stage_texts(kernel, name)
    ] or [Block(name, _no_kernel(target))]


def _no_kernel(target: Target) -> str:
    return f"(there is no Triton kernel{': those for cpu are C++' if target.device == 'cpu' else ''})"


def _bytecode(capture: Capture, _: Target) -> Iterator[Block]:
    for frame in capture.exploration.frames:
        yield Block(f"bytecode: {frame.name}, original", frame.original, "bytecode")
        yield Block(f"bytecode: {frame.name}, modified by Dynamo", frame.modified, "bytecode")
        yield Block(f"guards: {frame.name}", "\n".join(frame.guards), "python")


def _log(capture: Capture, _: Target) -> Iterator[Block]:
    lines = []
    for artifact, message in capture.exploration.log:
        first, *rest = _short(message).strip("\n").splitlines() or [""]
        lines += [f"[{artifact}] {first}", *(f"    {line}".rstrip() for line in rest)]
    yield Block("log", "\n".join(lines) or "(nothing was logged)", "log")


def _short(message: str) -> str:
    """Without where each node comes from, addresses, and the way through this harness to the user's code."""
    message = re.sub(r", \\*'stack_traces = \{\\*'.*?, \\*'\}\\*'| at 0x[0-9a-f]+", "", message)
    head, said, trace = message.partition("User code traceback:\n")
    entries = re.split(r'^(?=[ \t]*File ")', trace, flags=re.MULTILINE)
    ours = [number for number, entry in enumerate(entries) if "/conformance/capture/" in entry.partition("\n")[0]]
    return head + said + "".join(entries[ours[-1] + 1 :] if ours else entries)


_MAKERS: dict[str, Callable[[Capture, Target], Iterator[Block]]] = {
    "": _whole,
    "facts": _facts,
    "why": _why,
    "ir": _ir,
    "code": _code,
    "raw": _raw,
    "binary": _binary,
    "bytecode": _bytecode,
    "log": _log,
}


def _graphs(
    capture: Capture, stages: Sequence[str], *, shown: Callable[[str], str] | None = None, repeat: bool = False
) -> Iterator[Block]:
    """`shown`: how a graph is written; `repeat`: also where the passes changed nothing."""
    seen = capture.exploration
    wanted = [stage for stage in stages if stage != "runnable"] or ([] if stages else list(STAGES))
    last: dict[str, str] = {}
    for (stage, when), graph in _numbered(((graph.stage, graph.when), graph) for graph in seen.graphs):
        if graph.stage not in wanted:
            continue
        text = (shown or graph_text)(graph.text).strip("\n")
        same = last.get(stage) == text and not repeat
        last[stage] = text
        yield Block(f"graph: {stage}, {when}", "(the same)" if same else text, "" if same else "python")
    for stage in wanted if stages else ():
        if not any(graph.stage == stage for graph in seen.graphs):
            none = "nothing requires a gradient" if stage in ("joint", "backward") else "Dynamo captured nothing"
            yield Block(f"graph: {stage}", f"(there is none: {none})")
    if "runnable" in stages:
        yield Block("graph: runnable", seen.script.rstrip("\n"), "python")


def graph_text(text: str) -> str:
    """A graph as torch prints it; of a place in the source, the file's name, the line and the code."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"(# .*?)File: (?:\S*/)?(\S+:\d+) in (\S+), code: ", r"\1\2 in \3: ", text)
    text = re.sub(r"^[ \t]*# (?:No stacktrace found|Annotation: ).*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r";  (?:\w+ = )+None", "", text)  # when the tracer lets go of a value
    text = text.replace("class <lambda>(", "class GraphModule(")
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _numbered(pairs):
    """A second one of a kind, after a graph break, is `inference 2`."""
    seen: Counter = Counter()
    for kind, value in pairs:
        seen[kind] += 1
        again = f" {seen[kind]}" if seen[kind] > 1 else ""
        yield (f"{kind}{again}" if isinstance(kind, str) else (f"{kind[0]}{again}", kind[1])), value
