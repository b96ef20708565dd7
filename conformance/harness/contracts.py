"""`contract(…)`: what a library demands of generated code, in `require=` of a case or checked in a test of its own.

CONTRACT = contract(contains=["mylib.rms_norm"], kernels="<=2", graph_breaks=0)

@case(x=tensor(7, 33), config=MY_PASSES, require={"all": CONTRACT})
def test_block(x): ...

def test_block_keeps_its_fusion():
    CONTRACT.check(block, torch.randn(7, 33), target="cuda_sm90", config=MY_PASSES)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conformance.documentation import reference
from conformance.errors import ConformanceError, first_line
from conformance.expectations.contracts import ContractError, wanted_facts_of, wanted_matches_of

if TYPE_CHECKING:
    from conformance.capture.model import Capture
    from conformance.cases.case import Case
    from conformance.compiler.same_bits import Verdict
    from conformance.devices.targets import Target


class Contract(dict[str, Any]):
    """Fact → wanted value: what a selector of `require=` takes. Made by `contract`."""

    def check(
        self,
        function: Callable[..., Any],
        *inputs: Any,
        target: str,
        config: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        grad: bool = False,
        mode: str = "plain",
        named: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Compiles `function(*inputs, **named)` for a target and returns a line for each requirement, all of them met.

        No target needs its device; on a machine with the target's GPU, the code is called once. `function`: a function,
        or a torch.nn.Module. `inputs`, `named`: tensors, modules, constants, and lists, tuples and dicts of these.
        Tensors may be on any device; copies of them are used. `target`: a name, such as "cuda_sm90". `config`: options
        of Inductor, and of Dynamo as `dynamo.capture_scalar_outputs`. `dynamic`: with dynamic shapes. `grad`: with the
        backward of the inputs and parameters that require a gradient. `mode`: what surrounds the call: "plain",
        "no_grad", "inference" or "autocast".

        Raises RequirementError (an AssertionError) if a requirement is not met: its first line says which one, and what
        is there instead. Raises TargetError for an unknown target, DeclarationError for an unknown fact or operator,
        PreparationError where no code can be generated for the target in this process, ContractError for tensors that
        `function` takes from outside, and what compiling raises.
        """
        from conformance import facts
        from conformance.cases.given_case import given_case
        from conformance.cases.target_selection import select_targets
        from conformance.devices.targets import targets
        from conformance.expectations.requirements import check_facts

        [row] = select_targets(targets().values(), None, target)
        case = given_case(function, inputs, named or {}, config=config or {}, dynamic=dynamic, grad=grad, mode=mode)
        case = dataclasses.replace(case, require={"all": self})  # the capture looks for the patterns of its case
        found = facts.extract(_captured(case, row, function))
        advice = f"fix the cause, or edit the contract: {reference('contracts')}"
        return check_facts(f"{case.name} on {row.name}", self, found, advice, functools.partial(_bits, case, row))

    def __or__(self, other: Any) -> Contract:  # type: ignore[override]  # dict gives a dict
        """Both contracts, or a contract and further facts. What `other` says of a fact counts."""
        return Contract({**self, **other})


def contract(
    *,
    pattern: Any = None,
    matches: int | str = 1,
    inputs: Sequence[Any] = (),
    name: str = "",
    contains: Iterable[str] | Mapping[str, int | str] | str = (),
    lacks: Iterable[str] | str = (),
    kernels: int | str | None = None,
    bytes_at_most: int | None = None,
    fallbacks: Iterable[str] | int | None = None,
    layout_changes: int | str | None = None,
    graph_breaks: int | str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Contract:
    """A contract: each keyword is a demand, and a number may be a bound such as "<=2".

    - `pattern`: a pattern of Inductor's pattern matcher, which matches as often as `matches` says. `name`: how messages
      name it; two patterns of one case need different names. A pattern that passes must rewrite is the name of one of
      Inductor's or of its pass, as the fact `patterns` has it ("fuse_attention.sfdp_pattern_1"); a function that is
      registered as the searched one, its replacement or the handler; a PatternMatcherPass; or an object that has such
      passes as attributes. A pattern that the graph must have after all passes is a function with example `inputs`, or
      an expression such as CallFunction(…).
    - `contains`: operators that the graph has after all passes of Inductor, such as "aten.mm", "aten.add.Tensor" or
      "mylib.rms_norm". A list says that each occurs; a dict says how often: {"aten.mm": 2, "aten.cat": "<=1"}.
    - `lacks`: operators that this graph does not have.
    - `kernels`: the number of calls of generated kernels, without library calls.
    - `bytes_at_most`: bytes that all kernels and calls read and write.
    - `fallbacks`: 0, or the list of all operators that may run as in eager mode, one name for each call.
    - `layout_changes`: the number of copies that only change a layout.
    - `graph_breaks`: their number.
    - `facts`: any other facts, as in `require=`: {"vectorised": "yes", "buffers": "<=2", "same_bits": ["batch"]}.

    Raises ContractError for a wrong declaration.
    """
    wanted = wanted_matches_of(pattern, matches, inputs, name) | wanted_facts_of(
        contains=contains,
        lacks=lacks,
        kernels=kernels,
        bytes_at_most=bytes_at_most,
        fallbacks=fallbacks,
        layout_changes=layout_changes,
        graph_breaks=graph_breaks,
        facts=facts,
    )
    if not wanted:
        raise ContractError(f"contract() demands nothing; write contract(kernels=1): {reference('contracts')}")
    return Contract(wanted)


def _bits(case: Case, target: Target, kinds: Collection[str]) -> Iterator[Verdict]:
    """The verdicts on properties of same bits: natively on a GPU that is here, else by structure."""
    from conformance.compiler.compiler import compiler_here
    from conformance.compiler.same_bits import verdicts
    from conformance.harness.this_process import native_gpus

    with contextlib.closing(compiler_here()) as compiler:
        yield from verdicts(compiler, case, target, deviceless=target.device not in native_gpus(), kinds=kinds)


def _captured(case: Case, target: Target, function: Callable[..., Any]) -> Capture:
    """The capture of a case in this process. Raises PreparationError where there can be none.

    `function`: what the case calls. Raises ContractError where it takes tensors from outside that are elsewhere.
    """
    from conformance.cases import custom_operators, outside_tensors
    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.devices import environment
    from conformance.harness import foreign_warnings
    from conformance.harness.this_process import native_gpus, reason_not_captured

    if problem := reason_not_captured(target):
        raise environment.PreparationError(f"no code can be generated for {target.name}: {problem}")
    environment.disable_trace_records()
    request = CaseRequest(case, target, "native" if target.device in native_gpus() else "deviceless")
    try:
        with foreign_warnings.no_errors(), capture(request) as captured:
            return captured.capture
    except ConformanceError:
        raise
    except Exception as error:
        said = custom_operators.advice(error)
        if not said and "device" in str(error) and (names := outside_tensors.outside_names(function)):
            said = (
                f"it takes {' and '.join(names)} from outside, which stays on the CPU: give it to check() as an input"
            )
        if said:
            raise ContractError(f"{case.name} on {target.name}: {first_line(error)}\n{said}") from error
        raise
