"""A program: what a capture compiles, and how it calls that.

It is all that the generator knows of a case. Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Positional and keyword arguments of a call.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]
#: How the name begins of a pattern that the fact `patterns` has.
OF_INDUCTOR = "patterns."
#: Later calls in which Dynamo makes code of its own for the size.
OWN_CODE_CALLS = ("sizes 1", "sizes 0")


@dataclass(frozen=True, eq=False)
class WantedMatches:
    """How often a pattern of Inductor's pattern matcher must match: a wanted value of the fact `matches`.

    `name`: the part of the fact `matches`. `count`: a number, or a bound such as "<=2".

    `pattern`: the name of a pattern of Inductor, as the fact `patterns` has it; a function that is searched for, or
    that handles matches; an expression of patterns; or a pass, or an object that has passes. `inputs`: example inputs
    of a searched function.
    """

    name: str
    pattern: Any
    count: int | str
    inputs: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return repr(self.count)


def torch_compile(program: Program, function: Callable[..., Any], _device: str) -> Callable[..., Any]:
    """What torch.compile makes of `function`."""
    import torch

    return torch.compile(function, dynamic=program.dynamic)


@dataclass(frozen=True)
class Program:
    """A function, the arguments of its first call, and how it is compiled.

    `name`: of graphs and messages. `arguments`: makes those of the first call, on any device. `config`: options of
    Inductor, and of Dynamo after `dynamo.`. `mode`: one of call_modes.MODES.
    `without_memory`: arguments are made, and code is generated, in a FakeTensorMode: tensors have sizes and no values.
    `may_raise`: returns whether eager raises, so that an error of the first call is a part of the capture; it is asked
    after the error.
    `patterns`: whose matches are counted. `later_calls`: makes the name and the arguments of each call after the first
    one, to count what it compiles; None counts nothing.
    `compile`: (program, function, device) → what is called.
    """

    name: str
    fn: Callable[..., Any]
    arguments: Callable[[], Arguments]
    dynamic: bool | None = False
    config: Mapping[str, Any] = field(default_factory=dict)
    mode: str = "plain"
    without_memory: bool = False
    may_raise: Callable[[], bool] = bool  # False
    patterns: Sequence[WantedMatches] = ()
    later_calls: Callable[[], Iterable[tuple[str, Arguments]]] | None = None
    compile: Callable[[Program, Callable[..., Any], str], Callable[..., Any]] = torch_compile
