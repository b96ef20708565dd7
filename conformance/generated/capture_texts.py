"""The texts of a capture: its facts, its graphs, its code, and all that a snapshot holds."""

from __future__ import annotations

from conformance.capture.model import Capture
from conformance.devices.environment import torch_build, triton_version
from conformance.devices.targets import Target


def origin(capture: Capture, target: Target) -> str:
    """How a capture was made, and with which versions: `compiled and run here; torch 2.13.0`."""
    from conformance.facts.dynamo import nothing_compiled

    if text := nothing_compiled(capture):
        how = text
    elif capture.mode == "native":
        how = "compiled and run here"
    else:
        how = "generated, not run" if target.device == "cpu" else "generated without the device"
    triton = f", Triton {triton_version()}" if triton_version() and target.device != "cpu" else ""
    return f"{how}; torch {torch_build().version}{triton}"


def facts_text(capture: Capture) -> str:
    """`kernels     1: flip`, a fact a line."""
    from conformance.facts import extract
    from conformance.normalize.text import facts_block

    return facts_block(extract(capture).lines()).rstrip("\n")


def whole_text(capture: Capture, target: Target) -> str:
    """The text of a snapshot: facts, joint graph, normalised code."""
    from conformance.facts import extract
    from conformance.normalize.text import canonical_text, snapshot_text

    return canonical_text(snapshot_text(capture, extract(capture).lines(), target.device)).rstrip("\n")


def graph_text(capture: Capture, target: Target) -> str:
    """The joint graph where the case has gradients, otherwise the forward graphs: one for each part of the function."""
    from conformance.normalize.text import normalised_graph

    graphs = [capture.joint_graph] if capture.joint_graph else [m.graph for m in capture.complete().modules]
    return "\n\n".join(normalised_graph(text, target.device).strip("\n") for text in graphs)


def code_text(capture: Capture, target: Target) -> str:
    """The normalised kernels and calls of all modules, without facts: what `same_code_as` compares."""
    from conformance.normalize.wrapper_modules import normalise

    return "\n".join(normalise(module.code, target.device) for module in capture.modules).strip("\n")
