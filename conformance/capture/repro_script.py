"""Writes the graphs that Dynamo captured as a Python file that needs only torch."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

_HEAD = '''"""{title}

This file needs only torch. Input values are random, within the range of the original values.
"""

import torch
{imports}
DEVICE = {device}


def tensor(shape, stride, dtype, low=0, high=1, values=None, requires_grad=False):
    """A tensor with these strides that holds `values`, or random values from low to high."""
    if values is not None:
        filled = torch.tensor(values).to(dtype).reshape(shape)
    elif dtype.is_floating_point or dtype.is_complex:
        filled = (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(dtype)
    else:
        filled = torch.randint(low, high + 1, shape).to(dtype)
    return torch.empty_strided(shape, stride, dtype=dtype, device=DEVICE).copy_(filled).requires_grad_(requires_grad)


torch.manual_seed(0)
'''

_TAIL = """
for output in outputs{number}:
    if isinstance(output, torch.Tensor):
        print(tuple(output.shape), tuple(output.stride()), output.dtype, output.device)
    else:
        print(output)
"""

#: Names that FX's generated code uses without an import.
_IMPORTS = {
    "device": "from torch import device",
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "fx_pytree": "from torch.fx import _pytree as fx_pytree",
    "pytree": "from torch.utils import _pytree as pytree",
}
#: An integer tensor with at most this many elements is probably an index or a shape: its values are kept.
_SMALL = 64


class GraphScript:
    """One graph as Dynamo captured it, before any pass. `inputs`: None until the graph is called."""

    def __init__(self, gm: Any) -> None:
        self.imports: dict[str, None] = {}
        self.classes: list[str] = []
        self.name = self._add_class(gm, "Graph")
        self.inputs: list[str] | None = None

    def record_inputs(self, values: Sequence[Any]) -> None:
        """Keeps the inputs of the first call."""
        if self.inputs is None:
            self.inputs = [_literal(value) for value in values]

    def _add_class(self, gm: Any, name: str) -> str:
        """Appends the source of a graph module's class, after those of its submodules. Returns the class name."""
        import torch

        statements = []
        for attribute, value in _attributes(gm):
            if isinstance(value, torch.fx.GraphModule):
                statements.append(f"self.{attribute} = {self._add_class(value, f'{name}_{attribute}')}()")
            elif isinstance(value, torch.Tensor):
                statements.append(f'self.register_buffer("{attribute}", {_literal(value)})')
            else:
                statements.append(f"self.{attribute} = None  # {type(value).__name__}: cannot be written as source")
        code = gm.graph.python_code("self")
        for used, value in code.globals.items():
            if used != "torch" and re.search(rf"(?<![\w.]){re.escape(used)}\b", code.src):
                self.imports[_IMPORTS.get(used) or _import(used, value)] = None
        source = re.sub(r";  (?:\w+ = )+None", "", code.src)
        source = re.sub(r"[ \t]+$", "", source, flags=re.MULTILINE).strip("\n")
        init: list[str] = []
        if statements:
            init = ["def __init__(self):", "    super().__init__()", *(f"    {line}" for line in statements), ""]
        body = textwrap.indent("\n".join([*init, source]), "    ")
        self.classes.append(f"class {name}(torch.nn.Module):\n{body}\n")
        return name


def script_text(case: str, device: str, scripts: Sequence[GraphScript]) -> str:
    """The text of the file. `outputs` holds the first graph's results; `outputs2` etc. those after graph breaks."""
    import torch

    where = f'"{device}" if torch.{device}.is_available() else "cpu"' if device != "cpu" else '"cpu"'
    imports = "".join(f"{line}\n" for line in dict.fromkeys(line for each in scripts for line in each.imports))
    graphs = f"{len(scripts)} graphs" if len(scripts) != 1 else "graph"
    title = f"{case}: the {graphs} that Dynamo of torch {torch.__version__} captured."
    text = [_HEAD.format(title=title, imports=imports, device=where)]
    for position, each in enumerate(scripts, 1):
        number = str(position) if position > 1 else ""
        body = "\n\n".join(each.classes)
        if number:
            body = re.sub(r"\bGraph(?=_|\(|\b)", f"Graph{number}", body)
        text.append("\n" + _use_device_variable(body, device))
        if each.inputs is None:
            text.append(f"\n# Graph{number} was not called, because an earlier step failed")
            continue
        inputs = "".join(f"    {value},\n" for value in each.inputs)
        text.append(f"\ninputs{number} = [\n{inputs}]\noutputs{number} = Graph{number}()(*inputs{number})")
        text.append(_TAIL.format(number=number))
    return "\n".join(text)


def _use_device_variable(body: str, device: str) -> str:
    """Replaces the device by the file's DEVICE, which is "cpu" on a machine without the device."""
    body = re.sub(rf"device\(type='{device}'(?:, index=\d+)?\)", "device(DEVICE)", body)
    return re.sub(rf"(['\"]){device}(?::\d+)?\1", "DEVICE", body)


def _attributes(gm: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of each attribute of the module that the graph uses, once each."""
    targets = dict.fromkeys(node.target for node in gm.graph.nodes if node.op in ("get_attr", "call_module"))
    for target in targets:
        value = gm
        for part in target.split("."):
            value = getattr(value, part)
        yield target, value


def _import(name: str, value: Any) -> str:
    module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not qualified or "<" in qualified:
        return f"{name} = None  # {type(value).__name__}: cannot be written as source"
    outer, _, attribute = qualified.rpartition(".")
    if outer:
        return f"import {module}; {name} = {module}.{outer}.{attribute}"
    return f"from {module} import {qualified}{f' as {name}' if name != qualified else ''}"


def _literal(value: Any) -> str:
    """A Python expression for the value, or for a tensor like it."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    arguments = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}"
    on_cpu = value.detach().cpu()
    if value.numel() and not value.dtype.is_complex:
        if not value.dtype.is_floating_point and value.numel() <= _SMALL:
            arguments += f", values={on_cpu.tolist()}"
        else:
            wide = on_cpu.to(torch.float64 if value.dtype.is_floating_point else torch.int64)
            finite = wide[wide.isfinite()] if value.dtype.is_floating_point else wide
            if finite.numel():
                low, high = finite.min().item(), finite.max().item()
                if value.dtype.is_floating_point:
                    low, high = float(f"{low:.6g}"), float(f"{high:.6g}")
                arguments += f", low={low}, high={high}"
    if value.requires_grad:
        arguments += ", requires_grad=True"
    return f"tensor({arguments})"
