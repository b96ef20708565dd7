"""Records what a generated graph hands to torch's runtime besides its code.

Decisions: which inputs the code changes, which constants it reads and which strides its outputs have
(torch/_inductor/graph.py: GraphLowering; compile_fx.py and output_code.py keep them for the calls). They are read after
the codegen; no patch is needed.
"""

from __future__ import annotations

import hashlib
from typing import Any


def metadata(graph: Any) -> dict[str, Any]:
    """JSON-able: `changed` (names and positions of the inputs that the code changes), `aligns` (whether the code itself
    copies misaligned inputs), `outputs` (their strides), `constants` (name → SHA-256 of a constant's dtype, shape,
    strides and bytes; "" where they cannot be read).
    """
    constants = {name: _digest(value) for name, value in graph.constants.items()}
    for group in ("torchbind_constants", "opaque_value_type_classes"):
        constants |= dict.fromkeys(getattr(graph, group, None) or {}, "")
    return {
        "changed": [sorted(graph.mutated_inputs), sorted(graph.mutated_input_idxs)],
        "aligns": bool(getattr(graph, "_defers_input_alignment", False)),
        "outputs": [_strides(output) for output in graph.graph_outputs or ()],
        "constants": constants,
    }


def _strides(output: Any) -> str:
    return str(output.get_stride()) if getattr(output, "has_tensor_output", lambda: False)() else type(output).__name__


def _digest(value: Any) -> str:
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    try:
        with unset_fake_temporarily(), torch.no_grad():
            data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    except (AttributeError, RuntimeError, TypeError):
        return ""  # a script object, a fake tensor, or a tensor of a device that is not here
    form = f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device.type}"
    return hashlib.sha256(form.encode() + data).hexdigest()
