"""The parts of a capture as text: each part is a list of blocks with titles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from conformance.capture.model import Capture, Exploration
from conformance.devices.targets import Target
from conformance.generated.capture_texts import code_text, facts_text, whole_text

#: Stages of a graph. "runnable" is the captured graph as a script.
STAGES = ("captured", "joint", "forward", "backward", "runnable")


@dataclass(frozen=True)
class Block:
    """`language`: python, code (facts, kernels in C++ or Python, calls), facts, log, bytecode, or "" for none."""

    title: str
    text: str
    language: str = ""


def blocks(part: str, capture: Capture, target: Target, stages: Sequence[str] = ()) -> list[Block]:
    """Returns a part. `part`: one of `case_options.PARTS`, or "" for the text that a snapshot stores.

    `stages`: the stages of graphs to return; none means all except "runnable". Raises ValueError for a part that needs
    an explored capture.
    """
    if part == "graph":
        return list(_graphs(capture, stages))
    return list(_MAKERS[part](capture, target))


def comparable_blocks(part: str, capture: Capture, target: Target, stages: Sequence[str] = ()) -> list[Block]:
    """Returns a part without what differs between any two cases or targets: source locations, the device's name."""
    if part == "graph":
        from conformance.normalize.text import normalised_graph

        stages = [stage for stage in stages if stage != "runnable"]
        return list(_graphs(capture, stages, write=lambda text: normalised_graph(text, target.device), repeat=True))
    found = blocks(part, capture, target)
    if part == "ir":
        device = rf"'{target.device}(:\d+)?'"
        return [Block(block.title, re.sub(device, "device", block.text), block.language) for block in found]
    return found


def why_text(capture: Capture) -> str:
    """Returns Inductor's reasons, one on each line."""
    from conformance.facts import explain

    return explain.explanation(capture).rstrip("\n")


def _whole(capture: Capture, target: Target) -> Iterator[Block]:
    yield Block("", whole_text(capture, target), "code")


def _facts(capture: Capture, _: Target) -> Iterator[Block]:
    yield Block("facts", facts_text(capture), "facts")
    if further := further_text(capture):
        yield Block("further facts", further, "facts")


def further_text(capture: Capture) -> str:
    """Returns the facts that a snapshot does not store; empty without any."""
    from conformance.facts import extract
    from conformance.normalize.text import facts_block

    return facts_block(extract(capture).further().lines()).rstrip("\n")


def _why(capture: Capture, _: Target) -> Iterator[Block]:
    yield Block("why", why_text(capture), "facts")


def _ir(capture: Capture, _: Target) -> Iterator[Block]:
    modules = capture.complete().modules
    for suffix, module in zip(_suffixes(module.kind for module in modules), modules, strict=True):
        name = f"{module.kind}{suffix}"
        before, after = _nodes(module.ir_pre_fusion), _nodes(module.ir_post_fusion)
        yield Block(f"ir: {name}, before fusion", before, "python")
        if before == after:
            yield Block(f"ir: {name}, after fusion", "(the same: nothing was fused)")
        else:
            yield Block(f"ir: {name}, after fusion", after, "python")


def _nodes(text: str) -> str:
    """Returns the nodes as in Inductor's debug folder, separated by a blank line, without what all nodes share."""
    text = re.sub(r"^.*\.(min|max)_(input|order)_?\w* = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"^(?=\w+: [\w.]+\()", "\n", text, flags=re.MULTILINE)
    return text.strip("\n")


def _code(capture: Capture, target: Target) -> Iterator[Block]:
    yield Block("code", code_text(capture, target), "code")


def _raw(capture: Capture, _: Target) -> Iterator[Block]:
    suffixes = _suffixes(module.kind for module in capture.modules)
    for suffix, module in zip(suffixes, capture.modules, strict=True):
        yield Block(f"raw: {module.kind}{suffix}", module.code.strip("\n"), "code")


def _binary(capture: Capture, target: Target) -> Iterator[Block]:
    from conformance.facts import binary

    yield Block("binary", "\n".join(binary.lines(capture)) or _no_kernel(target))


def triton_stage(name: str, capture: Capture, target: Target) -> list[Block]:
    """Returns a stage of each Triton kernel. `name`: one of `capture.offline.compiler.STAGES`.

    Raises StageError and KernelError.
    """
    from conformance.capture.offline import compiler

    compiler.refuse_unknown_stage(name, target.family)
    return [
        Block(f"{name}: {kernel.module}, {kernel.name}, {launch}", text.strip("\n"))
        for kernel in compiler.kernels(capture)
        for launch, text in compiler.stage_texts(kernel, name)
    ] or [Block(name, _no_kernel(target))]


def _no_kernel(target: Target) -> str:
    reason = ": kernels for cpu are C++" if target.device == "cpu" else ""
    return f"(there is no Triton kernel{reason})"


def _exploration(capture: Capture) -> Exploration:
    if capture.exploration is None:
        raise ValueError(f"the capture of {capture.case} was not explored: generate it with explore=True")
    return capture.exploration


def _bytecode(capture: Capture, _: Target) -> Iterator[Block]:
    for frame in _exploration(capture).frames:
        yield Block(f"bytecode: {frame.name}, original", frame.original, "bytecode")
        yield Block(f"bytecode: {frame.name}, modified by Dynamo", frame.modified, "bytecode")
        yield Block(f"guards: {frame.name}", "\n".join(frame.guards), "python")


def _log(capture: Capture, _: Target) -> Iterator[Block]:
    lines = []
    for artifact, message in _exploration(capture).log:
        first, *rest = _shortened(message).strip("\n").splitlines() or [""]
        lines += [f"[{artifact}] {first}", *(f"    {line}".rstrip() for line in rest)]
    yield Block("log", "\n".join(lines) or "(nothing was logged)", "log")


def _shortened(message: str) -> str:
    """Removes addresses, the stack of each node, and from a user's traceback the frames up to this package's last."""
    message = re.sub(r", \\*'stack_traces = \{\\*'.*?, \\*'\}\\*'| at 0x[0-9a-f]+", "", message)
    head, title, trace = message.partition("User code traceback:\n")
    entries = re.split(r'^(?=[ \t]*File ")', trace, flags=re.MULTILINE)
    own = [number for number, entry in enumerate(entries) if "/conformance/capture/" in entry.partition("\n")[0]]
    return head + title + "".join(entries[own[-1] + 1 :] if own else entries)


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
    capture: Capture, stages: Sequence[str], *, write: Callable[[str], str] | None = None, repeat: bool = False
) -> Iterator[Block]:
    """`write`: returns a graph's text for the reader. `repeat`: repeat a graph that the passes did not change."""
    exploration = _exploration(capture)
    wanted = [stage for stage in stages if stage != "runnable"] or ([] if stages else list(STAGES))
    suffixes = _suffixes((graph.stage, graph.when) for graph in exploration.graphs)
    last: dict[str, str] = {}
    for suffix, graph in zip(suffixes, exploration.graphs, strict=True):
        if graph.stage not in wanted:
            continue
        stage = f"{graph.stage}{suffix}"
        text = (write or graph_text)(graph.text).strip("\n")
        same = last.get(stage) == text and not repeat
        last[stage] = text
        yield Block(f"graph: {stage}, {graph.when}", "(the same)" if same else text, "" if same else "python")
    for stage in wanted if stages else ():
        if not any(graph.stage == stage for graph in exploration.graphs):
            reason = "nothing requires a gradient" if stage in ("joint", "backward") else "Dynamo captured nothing"
            yield Block(f"graph: {stage}", f"(there is none: {reason})")
    if "runnable" in stages:
        yield Block("graph: runnable", exploration.script.rstrip("\n"), "python")


def graph_text(text: str) -> str:
    """Returns a graph as torch prints it. Of a source location, the file's name, the line and the code stay."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"(# .*?)File: (?:\S*/)?(\S+:\d+) in (\S+), code: ", r"\1\2 in \3: ", text)
    text = re.sub(r"^[ \t]*# (?:No stacktrace found|Annotation: ).*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r";  (?:\w+ = )+None", "", text)  # marks where the tracer frees a value
    text = text.replace("class <lambda>(", "class GraphModule(")
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _suffixes(kinds: Iterable[Hashable]) -> Iterator[str]:
    """Yields "" for the first of a kind, " 2" for the second: after a graph break a kind comes again."""
    counts: Counter[Hashable] = Counter()
    for kind in kinds:
        counts[kind] += 1
        yield f" {counts[kind]}" if counts[kind] > 1 else ""
