"""The graphs that Dynamo captured, as a Python file that runs by itself with plain torch."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

_HEAD = '''"""{title}

Runs with plain torch. The values of the inputs are random, within the range that they had.
"""

import torch
{imports}
DEVICE = {device}


def tensor(shape, stride, dtype, low=0, high=1, values=None, requires_grad=False):
    """Random values from low to high, or the given ones, in a tensor of these strides."""
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

#: What FX's own code calls without saying where from.
_KNOWN = {
    "device": "from torch import device",
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "fx_pytree": "from torch.fx import _pytree as fx_pytree",
    "pytree": "from torch.utils import _pytree as pytree",
}
_SMALL = 64  # elements of an integer tensor that is written out: an index or a shape, rather than data


class GraphScript:
    """One graph, taken before any pass changes it; its inputs once it is called."""

    def __init__(self, gm: Any) -> None:
        self.imports: dict[str, None] = {}
        self.classes: list[str] = []
        self.name = self._class(gm, "Graph")
        self.inputs: list[str] | None = None

    def record_inputs(self, values: Sequence[Any]) -> None:
        """Only the first call counts."""
        if self.inputs is None:
            self.inputs = [_literal(value) for value in values]

    def _class(self, gm: Any, name: str) -> str:
        """Appends the class of a graph module, those of its submodules before it; returns the name."""
        import torch

        made = []
        for attribute, value in _attributes(gm):
            if isinstance(value, torch.fx.GraphModule):
                made.append(f"self.{attribute} = {self._class(value, f'{name}_{attribute}')}()")
            elif isinstance(value, torch.Tensor):
                made.append(f'self.register_buffer("{attribute}", {_literal(value)})')
            else:
                made.append(f"self.{attribute} = None  # {type(value).__name__}: cannot be written down")
        code = gm.graph.python_code("self")
        for used, value in code.globals.items():
            if used != "torch" and re.search(rf"(?<![\w.]){re.escape(used)}\b", code.src):
                self.imports[_KNOWN.get(used) or _import(used, value)] = None
        source = re.sub(r";  (?:\w+ = )+None", "", code.src)
        source = re.sub(r"[ \t]+$", "", source, flags=re.MULTILINE).strip("\n")
        init = ["def __init__(self):", "    super().__init__()", *(f"    {line}" for line in made), ""] if made else []
        body = textwrap.indent("\n".join([*init, source]), "    ")
        self.classes.append(f"class {name}(torch.nn.Module):\n{body}\n")
        return name


def script_text(case: str, device: str, scripts: Sequence[GraphScript]) -> str:
    """The text of the file; `outputs` are the graph's, `outputs2` and so on those of graphs after graph breaks."""
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
        text.append("\n" + _anywhere(body, device))
        if each.inputs is None:
            text.append(f"\n# Graph{number} was not called: an error came first")
            continue
        given = "".join(f"    {value},\n" for value in each.inputs)
        text.append(f"\ninputs{number} = [\n{given}]\noutputs{number} = Graph{number}()(*inputs{number})")
        text.append(_TAIL.format(number=number))
    return "\n".join(text)


def _anywhere(body: str, device: str) -> str:
    """The device by the name that the file gives it, which is the cpu where the device is not."""
    body = re.sub(rf"device\(type='{device}'(?:, index=\d+)?\)", "device(DEVICE)", body)
    return re.sub(rf"(['\"]){device}(?::\d+)?\1", "DEVICE", body)


def _attributes(gm: Any) -> Iterator[tuple[str, Any]]:
    """What the graph gets from its module, each once."""
    targets = dict.fromkeys(node.target for node in gm.graph.nodes if node.op in ("get_attr", "call_module"))
    for target in targets:
        value = gm
        for part in target.split("."):
            value = getattr(value, part)
        yield target, value


def _import(name: str, value: Any) -> str:
    module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not qualified or "<" in qualified:
        return f"{name} = None  # {type(value).__name__}: cannot be written down"
    outer, _, attribute = qualified.rpartition(".")
    if outer:
        return f"import {module}; {name} = {module}.{outer}.{attribute}"
    return f"from {module} import {qualified}{f' as {name}' if name != qualified else ''}"


def _literal(value: Any) -> str:
    """An expression that makes the value, or one like it."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    said = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}"
    plain = value.detach().cpu()
    if value.numel() and not value.dtype.is_complex:
        if not value.dtype.is_floating_point and value.numel() <= _SMALL:
            said += f", values={plain.tolist()}"
        else:
            wide = plain.to(torch.float64 if value.dtype.is_floating_point else torch.int64)
            finite = wide[wide.isfinite()] if value.dtype.is_floating_point else wide
            if finite.numel():
                low, high = finite.min().item(), finite.max().item()
                if value.dtype.is_floating_point:
                    low, high = float(f"{low:.6g}"), float(f"{high:.6g}")
                said += f", low={low}, high={high}"
    if value.requires_grad:
        said += ", requires_grad=True"
    return f"tensor({said})"
