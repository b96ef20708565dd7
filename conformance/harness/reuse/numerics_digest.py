"""The digest of all that the numerics of one item depend on. Two runs with one digest have the same numerics.

It has the generated code and what torch's runtime takes besides it; the case and the source text that it comes from;
the seed of the run; the target and how its code runs; the suite, torch without what only generates code, Triton and
other libraries; the processor or GPU, the C++ compiler, and settings of this process.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import conformance
from conformance.cases import run_values
from conformance.cases.roots import CASE_ROOTS
from conformance.devices import environment
from conformance.harness.reuse.case_source import case_source
from conformance.harness.reuse.file_states import digest_of, folder_states
from conformance.harness.reuse.machine_state import gpu_state, machine_state
from conformance.harness.reuse.torch_files import torch_files

if TYPE_CHECKING:
    from conformance.capture.model import Capture, Module
    from conformance.cases.case import Case
    from conformance.devices.machine import Machine
    from conformance.devices.targets import Target

#: Changes with what the digest contains.
_FORMAT = "2"
#: What Inductor writes that differs between two runs and changes nothing: a counter of graphs, the identity of a Python
#: object (the digest has the constant's bytes), and a kernel's file in the cache. All three are in comments. Nothing
#: else differed in 643 captures of two processes with another order and another cache folder.
_RUN_DEPENDENT = (
    (re.compile(r"^# AOT ID: .*\n", re.MULTILINE), ""),
    (re.compile(r"^(\w+ = None  # .*\)) -?[0-9a-f]+$", re.MULTILINE), r"\1"),
    (re.compile(r"^\s*# kernel path: .*\n", re.MULTILINE), ""),
)


def reason_to_run(case: Case, capture: Capture) -> str:
    """Why the numerics of a captured case always run: they depend on what no digest shows. "" if a digest can be made.

    Raises what reading the case's file raises.
    """
    if case.prepare is not None:
        return "prepare= calls code that the digest does not see"
    if capture.error or not capture.modules:
        return "there is no generated code"
    if not _has_all_code(capture):
        return "torch runs a graph for which Inductor generated no code"
    if not all(map(_has_readable_constants, capture.modules)):
        return "the generated code reads a constant that is no plain tensor"
    if reader := _source(case).reader:
        return f"the source reads what the digest does not see ({reader})"
    return ""


def _has_all_code(capture: Capture) -> bool:
    """Whether each graph that Dynamo captured has generated code, and a backward if it has gradients.

    Inductor generates none for a graph that calls nothing. Torch then runs the graph as Inductor's passes left it.
    """
    kinds = [module.kind for module in capture.modules]
    graphs = capture.counters.get("stats", {}).get("unique_graphs", 0)
    return len(kinds) - kinds.count("backward") == graphs and kinds.count("forward") == kinds.count("backward")


def _has_readable_constants(module: Module) -> bool:
    return "runtime" in module.observed and "" not in _runtime(module)["constants"].values()


def numerics_digest(
    case: Case, target: Target, machine: Machine, capture: Capture, *, other_inputs: bool = False
) -> str:
    """The digest, 64 hexadecimal digits. Only for a case without a reason_to_run. Call it where numerics would run.

    `other_inputs`: whether the numerics compile the case with other inputs too.
    """
    return digest_of(_parts(case, target, machine, capture, other_inputs))


def _parts(case: Case, target: Target, machine: Machine, capture: Capture, other_inputs: bool) -> Iterator[str]:
    torch = torch_files(environment.torch_build().folder)
    codes = [_stable(module.code) for module in capture.modules]
    yield from (_FORMAT, harness_state(), torch.running, torch.used_by(codes), _triton_state(), machine_state())
    yield torch.all_generating() if other_inputs or _depends_on_all_of_inductor(case) else ""
    yield f"other inputs {other_inputs}"
    yield gpu_state(machine.gpus[target.device]) if capture.mode == "native" and target.device in machine.gpus else ""
    yield from _process_state()
    yield from (capture.mode, json.dumps(dataclasses.asdict(target), sort_keys=True, default=repr))
    yield from (str(case.file), case.id, _source(case).digest, str(case.grad), str(case.dynamic), case.mode)
    yield from (repr(case.config), repr(case.numerics), capture.joint_graph, str(run_values.current().seed))
    yield str(run_values.current().factor)
    for module, code in zip(capture.modules, codes, strict=True):
        yield from (module.kind, code, json.dumps(_runtime(module), sort_keys=True))


def _depends_on_all_of_inductor(case: Case) -> bool:
    """Whether the digest needs the files of Inductor that only generate code.

    Numerics may compile more code, for other sizes or values, or for what a call leaves in a module. And Inductor
    decides while it generates code whether and how a call records CUDA graphs.
    """
    options = any(name.startswith("dynamo.") or "cudagraph" in name for name in case.config)
    policy = repr(case.numerics)
    modules = len(case.recipes) > len(case.inputs)
    return case.dynamic or options or modules or "'recompiles'" in policy or "'raises'" in policy


def _source(case: Case) -> Any:
    return case_source(case.file, case.fn.__globals__.get("__package__") or "")


def _runtime(module: Module) -> dict[str, Any]:
    return module.observed["runtime"]


def _stable(code: str) -> str:
    for pattern, replacement in _RUN_DEPENDENT:
        code = pattern.sub(replacement, code)
    return code


def _process_state() -> Iterator[str]:
    """Settings of torch in this process that eager, a compiled function or the emulation read."""
    import torch

    yield str(torch.get_num_threads())
    yield str(torch.get_default_dtype())
    yield str(torch.are_deterministic_algorithms_enabled())
    yield torch.backends.cpu.get_cpu_capability()


@functools.cache
def _triton_state() -> str:
    """The state of Triton's files: its interpreter runs emulated kernels."""
    spec = importlib.util.find_spec("triton")
    folders = spec.submodule_search_locations if spec is not None else None
    parts = [f"{folder}/{path} {state}" for folder in folders or () for path, state in folder_states(Path(folder))]
    return digest_of([environment.triton_version(), *parts])


#: Folders that no result depends on, and those of cases: the digest of an item has the text of its own case.
_LEFT_OUT = (
    *("bench", "cli", "expected_binary", "expected_code", "known_failures", "review"),
    *(root.name for root in CASE_ROOTS),
)
_SUFFIXES = (".py", ".cpp", ".h", ".toml")


@functools.cache
def harness_state(folder: Path = Path(conformance.__file__).parent) -> str:
    """The digest of the texts of the suite: how inputs are made, code is emulated, results are compared. 10 ms."""
    paths = [path for path, _ in folder_states(folder, without=_LEFT_OUT) if path.endswith(_SUFFIXES)]
    return digest_of(part for path in paths for part in (path, (folder / path).read_text(encoding="utf-8")))
