"""The entries of PyTorch's op_db, and the cases of each.

torch.testing._internal is private. It is the only place where PyTorch has sample inputs for all of its operators.
Importing it takes seconds, so only the module that pytest collects does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.cases.axes import CaseError
from conformance.cases.case import Case
from conformance.cases.declaration_tables import Declarations
from conformance.cases.dtypes import dtype_of
from conformance.cases.nested.groups import Group
from conformance.cases.run_values import SampleSelection
from conformance.containers import Leaf, is_module, with_items
from conformance.sweep.samples import SampleInput, Source, drawn_samples, tensors_of

#: Entries whose named arguments stay on the CPU on every device: PyTorch asks for that.
_ON_CPU = {"tensor_split": "args"}

#: Many samples are one number or one boolean, which is the same in two calls by luck. So often numerics try others.
_FURTHER_CALLS = 8


@dataclass(frozen=True)
class Entry:
    """An entry of op_db. `name`: of its function, such as `nn_functional_relu`. `op`: PyTorch's OpInfo."""

    name: str
    op: Any

    def has_gradients(self, dtype: str) -> bool:
        kind = dtype_of(dtype)
        able = kind.is_floating_point or kind.is_complex
        return bool(able and self.op.supports_autograd and kind in self.op.backward_dtypes)

    def runs_on_cuda(self, dtype: str) -> bool:
        """Whether PyTorch lists the dtype for CUDA.

        PyTorch lists some bfloat16 only where it sees a GPU that has it. These are the entries that have float16.
        """
        import torch

        kind = dtype_of(dtype)
        listed = self.op.dtypesIfCUDA
        return kind in listed or (kind is torch.bfloat16 and torch.float16 in listed)


def entries() -> list[Entry]:
    """All entries, in PyTorch's order. Raises CaseError where what PyTorch's module needs is not installed."""
    try:
        from torch.testing._internal import common_methods_invocations
    except ImportError as error:
        raise CaseError(
            f"PyTorch's sample inputs cannot be imported: {error}; install what it names, such as: pip install numpy "
            "expecttest"
        ) from error
    # Entries of random functions set a seed around the function, where Dynamo breaks the graph: nothing was compiled.
    common_methods_invocations.wrapper_set_seed = _called
    found: dict[str, Entry] = {}
    for op in common_methods_invocations.op_db:
        name = f"{op.name}_{op.variant_test_name}" if op.variant_test_name else op.name
        name = name.replace(".", "_").replace("-", "_")
        if name in found:
            raise CaseError(
                f"two entries of op_db have the name {name}: conformance/sweep/entries.py must tell them apart"
            )
        found[name] = Entry(name, op)
    return list(found.values())


def _called(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def cases_of(entry: Entry, file: Path, selection: SampleSelection, declarations: Declarations) -> list[Case]:
    """The selected cases of an entry. `file`: the test file that declares them."""
    if selection.entries and entry.name not in selection.entries:
        return []
    found = []
    for dtype in selection.dtypes:
        if dtype_of(dtype) not in entry.op.dtypes:
            continue
        grad = entry.has_gradients(dtype)
        for source, drawn in drawn_samples(entry.op, dtype, grad=grad, most=selection.samples):
            found.append(_case(entry, source, drawn, file, selection, declarations))
    return found


def _case(
    entry: Entry,
    source: Source,
    drawn: Mapping[str, Any],
    file: Path,
    selection: SampleSelection,
    declarations: Declarations,
) -> Case:
    tensors = tensors_of(drawn)
    kept = _ON_CPU.get(entry.name, "")
    arguments = {
        name: _with_recipes(
            value, name, source, selection, {path: _can_be_special(each) for path, each in tensors.items()}
        )
        for name, value in drawn.items()
        if name != kept
    }
    paths = [path for path in tensors if not (kept and path.startswith(kept))]
    devices = _device_places(drawn)
    if devices and not paths:  # only a tensor says which device the case runs on
        arguments["where"] = _Where(_where, {}, special_values=False)
        paths.append("where")
    labels = (source.dtype, "backward" if source.grad else "forward", f"sample{source.number}")
    declared = declarations.of(entry.name, labels)
    only = declared.only
    if not only and not entry.runs_on_cuda(source.dtype):
        only = dict.fromkeys(("cpu", "xpu"), f"PyTorch's eager has no {entry.op.name} in {source.dtype} on CUDA")
    return Case(
        operator=file.stem.removeprefix("test_"),
        name=entry.name,
        labels=labels,
        fn=_function(entry.op.get_op(), devices, drawn[kept] if kept else (), arguments),
        file=file,
        arguments=arguments,
        choices={path: {} for path in paths},
        grad=tuple(path for path in paths if path in tensors and tensors[path].requires_grad),
        axes=("dtype", "grad", "sample"),
        numerics=declared.numerics,
        left_out=declared.left_out,
        only=only,
        further_calls=_FURTHER_CALLS,
    )


def _can_be_special(tensor: Any) -> bool:
    """Special values are for numbers: an integer tensor is often an index, and other values would end the process."""
    import torch

    return tensor.layout == torch.strided and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def _with_recipes(
    value: Any, path: str, source: Source, selection: SampleSelection, special: Mapping[str, bool]
) -> Any:
    """An argument with a recipe in place of each tensor."""

    def recipe(name: str, each: Any) -> Any:
        if name in special:
            takes = selection.special_values and special[name]
            return SampleInput(_never, {}, special_values=takes, source=source, path=name)
        if is_module(each) or isinstance(each, Leaf):
            return each
        return with_items(each, lambda step, item: recipe(f"{name}{step}", item))

    made = recipe(path, value)
    is_container = path not in special and any(name.startswith(path) for name in special)
    return Group(made) if is_container else made


def _never(**_values: Any) -> Any:
    raise AssertionError("SampleInput.build makes the tensor itself")


class _Where(SampleInput):
    """A tensor of one element, whose device is the one that the case runs on."""

    def build(self, choice: Mapping[str, Any], position: int, call: int | str) -> Any:  # noqa: ARG002
        import torch

        return torch.zeros(1)


def _where(**_values: Any) -> Any:
    raise AssertionError("_Where.build makes the tensor itself")


def _device_places(drawn: Mapping[str, Any]) -> tuple[int | str, ...]:
    """The positions and names of the arguments that are a device: the CPU, for which the sample was drawn."""
    import torch

    def is_device(value: Any) -> bool:
        return isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu")

    places: list[int | str] = [number for number, value in enumerate(drawn["args"]) if is_device(value)]
    return (*places, *(name for name, value in drawn["kwargs"].items() if is_device(value)))


def _function(
    op: Callable[..., Any], devices: tuple[int | str, ...], kept: tuple[Any, ...], arguments: Mapping[str, Any]
) -> Callable[..., Any]:
    """The function of a case. `devices`: the arguments in whose place the device of the case's tensors comes.

    `kept`: arguments that stay on the CPU. Each function has as little around the call as it needs, because Dynamo
    traces it.
    """
    if kept:

        def with_kept(input: Any, kwargs: Any) -> Any:  # noqa: A002 - PyTorch's name of the argument
            return op(input, *kept, **kwargs)

        return with_kept
    if "where" in arguments:
        named = tuple(each for each in devices if isinstance(each, str))

        def with_where(input: Any, args: Any, kwargs: Any, where: Any) -> Any:  # noqa: A002
            return op(input, *args, **{**kwargs, **dict.fromkeys(named, where.device)})

        return with_where
    if devices:

        def with_device(input: Any, args: Any, kwargs: Any) -> Any:  # noqa: A002
            device = input.device
            given = [device if number in devices else value for number, value in enumerate(args)]
            return op(input, *given, **{name: device if name in devices else kwargs[name] for name in kwargs})

        return with_device

    def plain(input: Any, args: Any, kwargs: Any) -> Any:  # noqa: A002
        return op(input, *args, **kwargs)

    return plain
