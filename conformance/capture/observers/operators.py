"""The operators of a graph after Inductor's passes, which it lowers to kernels and calls.

Private parts of torch: GraphLowering.module, the graph that Inductor lowers.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterator
from typing import Any

#: What takes a tensor out of a list, and computes nothing.
_NOT_COUNTED = (operator.getitem,)


def operators(graph: Any) -> list[str]:
    """The name of each operator that `graph`, a GraphLowering, calls: in order, then those of inner graphs."""
    import torch

    graphs = [part for part in graph.module.modules() if isinstance(part, torch.fx.GraphModule)]
    return [name for each in graphs for name in _names(each)]


def problem_of_operator(name: str) -> str:
    """Why there is no operator of this name; "" if there is one.

    Says nothing of a namespace that no library has registered: another process may have. Private: the list of all
    operators.
    """
    import torch

    known = {each.replace("::", ".") for each in torch._C._dispatch_get_all_op_names()}
    known |= {".".join(each.split(".")[:2]) for each in known}
    namespace, dot, _ = name.partition(".")
    if not dot or name in known or namespace not in {each.partition(".")[0] for each in known}:
        return ""
    nearest = difflib.get_close_matches(name, known, 3)
    return f"torch {torch.__version__} has no operator {name!r}" + (
        f"; nearest: {', '.join(nearest)}" if nearest else ""
    )


def _names(module: Any) -> Iterator[str]:
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target not in _NOT_COUNTED:
            yield operator_name(node.target)


def operator_name(target: Any) -> str:
    """`aten.add.Tensor`; `aten.mm` for the overload that is called default; `operator.mul` for a Python function."""
    import torch

    if isinstance(target, torch._ops.OpOverload):
        return str(target).removesuffix(".default")
    if isinstance(target, torch._ops.OpOverloadPacket):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return str(target.name())
    if isinstance(target, str):
        return target  # of a method, or of a module
    return f"{getattr(target, '__module__', '').removeprefix('_')}.{getattr(target, '__qualname__', repr(target))}"
