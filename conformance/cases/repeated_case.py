"""A case whose function calls the function of another case several times, as a model repeats a block."""

from __future__ import annotations

import dataclasses
from typing import Any

from conformance.cases.case import Case, CaseError


def repeated(case: Case, times: int) -> Case:
    """The case that calls the function so many times. Raises CaseError if no input is a tensor.

    Each call gets the output of the one before, in place of the first input that is a tensor of floating numbers (or
    else the first tensor). Where the output is no tensor of its shape and dtype, each call gets other values, and all
    outputs are returned.
    """
    if times == 1:
        return case
    import torch

    tensors = {name: each for name, each in case.build(0).items() if isinstance(each, torch.Tensor)}
    floating = [name for name, each in tensors.items() if each.is_floating_point()]
    if not tensors:
        raise CaseError(f"{case.id} cannot be repeated: no input is a tensor")
    lead, function = next(iter(floating or tensors)), case.fn

    def repeat(**inputs: Any) -> Any:
        outputs = []
        for _ in range(times):
            output, before = function(**inputs), inputs[lead]
            if isinstance(output, torch.Tensor) and (output.shape, output.dtype) == (before.shape, before.dtype):
                inputs = inputs | {lead: output}
            else:
                outputs.append(output)
                inputs = inputs | {lead: ~before if before.dtype == torch.bool else before + 1}
        return outputs or inputs[lead]

    return dataclasses.replace(case, fn=repeat)
