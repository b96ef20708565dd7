"""What of a case torch.compile gets: the whole function, each repeated block of its modules, or an exported program.

The block that a model repeats, such as the layer of a transformer, is often compiled alone: it compiles once for all
layers ("regional compilation" in PyTorch's documentation). Other engines export the model first. Each is another graph
for Inductor, so kernels may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from conformance.compiler.backends import exported_function
from conformance.containers import is_module, leaves_of
from conformance.errors import ConformanceError, first_line

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

#: The forms, the plain one first.
FORMS = ("whole", "regional", "exported")


class CompiledFormError(ConformanceError):
    """A case that has no such form. The message says why."""


def compiled_function(case: Case, fn: Callable[..., Any], form: str, device: str) -> Callable[..., Any]:
    """The compiled function of a case, in one of FORMS. Call it with the case's arguments, which compiles it.

    `fn`: the case's function, or what stands for it. `regional`: only the repeated blocks are compiled, and `fn` itself
    runs as it is. `exported`: the program that torch.export makes of the case's own function.

    Raises CompiledFormError, now or at the first call.
    """
    import torch

    if form == "exported":
        try:
            return exported_function(case, device, compiled=True)
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise CompiledFormError(f"{case.id}: torch.export cannot export it: {reason}") from error
    if form == "regional":
        return _with_compiled_blocks(case, fn)
    return torch.compile(fn, dynamic=case.dynamic)


def _with_compiled_blocks(case: Case, fn: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    def call(**arguments: Any) -> Any:
        blocks = list(repeated_blocks(_modules(arguments.values())))
        if not blocks:
            raise CompiledFormError(
                f"{case.id}: no module among its arguments repeats a block: regional compilation needs a ModuleList or "
                "a Sequential with two modules of one class"
            )
        for block in blocks:  # Module.compile does not compile modules of torch.nn itself: Dynamo skips their frames
            block.forward = torch.compile(block.forward, dynamic=case.dynamic)
        return fn(**arguments)

    return call


def repeated_blocks(modules: Iterable[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    """The outermost modules that stand beside another one of their class in a ModuleList or a Sequential.

    Not those that have no parameters and no submodules, such as activations: they are no block.
    """
    import torch

    for module in modules:
        children = [each for each in module.children() if any(True for _ in each.parameters())]
        repeated: set[type] = set()
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            classes = [type(each) for each in children if any(True for _ in each.children())]
            repeated = {each for each in classes if classes.count(each) > 1}
        yield from (each for each in children if type(each) in repeated)
        yield from repeated_blocks([each for each in children if type(each) not in repeated])


def _modules(arguments: Iterable[Any]) -> Iterator[torch.nn.Module]:
    for argument in arguments:
        yield from (leaf for _, leaf in leaves_of(argument, into_modules=False) if is_module(leaf))
