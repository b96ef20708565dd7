"""What Inductor writes above a Triton kernel (size hints, triton_meta, inductor_meta), one key a line."""

from __future__ import annotations

import ast

WIDTH = 110

#: Says nothing about the kernel: names, hashes, caches.
NOISE = {
    "filename": "path of the file that the kernel was written to",
    "kernel_name": "the name stands above the kernel",
    "backend_hash": "hash of Triton and the driver",
    "store_cubin": "whether the binary is kept",
    "autotune_local_cache": "cache switch",
    "autotune_remote_cache": "cache switch",
    "force_disable_caches": "cache switch",
}

#: Left out while it has this value, which all supported versions of torch have by default. Another value is shown.
DEFAULTS = {
    "triton_meta": {
        "constants": ("{}",),
        "native_matmul": ("False",),
        "enable_fp_fusion": ("True",),
        "launch_pdl": ("False",),
        "disable_ftz": ("False",),
    },
    "inductor_meta": {
        "autotune_hints": ("set()", "()"),  # written as a set before 2.15
        "mutated_arg_names": ("[]",),
        "atomic_add_found": ("False",),
        "assert_indirect_indexing": ("True",),
        "autotune_pointwise": ("True",),
        "dynamic_scale_rblock": ("True",),
        "dynamic_disable_pipelining": ("True",),
        "incremental_autotune": ("False",),
        "max_autotune": ("False",),
        "max_autotune_pointwise": ("False",),
        "min_split_scan_rblock": ("256",),
        "deterministic": ("False",),
        "batch_invariant": ("False",),
        "are_deterministic_algorithms_enabled": ("False",),
        "force_filter_reduction_configs": ("False",),
    },
}


def decorators(text: str, device: str) -> str:
    """The source of a Triton kernel with its decorators laid out; everything else as it was written."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines()
    for node in reversed(tree.body):
        for call in reversed(getattr(node, "decorator_list", [])):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("triton_heuristics."):
                lines[call.lineno - 1 : call.end_lineno] = decorator(call, device).splitlines()
    return "\n".join(lines)


def decorator(call: ast.Call, device: str) -> str:
    """`@triton_heuristics.pointwise(…)` as text; keywords in their own order, the dictionaries' keys sorted."""
    lines = [f"@{ast.unparse(call.func)}("]
    lines += [f"    {ast.unparse(argument)}," for argument in call.args]
    for keyword in call.keywords:
        if keyword.arg in NOISE:
            continue
        value = keyword.value
        if keyword.arg in DEFAULTS and isinstance(value, ast.Dict):
            value = meta(keyword.arg, value, device)
        name = f"{keyword.arg}=" if keyword.arg else "**"
        lines.append(f"    {name}{_layout(value, 4, len(name) + 1, keyword.arg in DEFAULTS)},")
    return "\n".join([*lines, ")"])


def meta(name: str, value: ast.Dict, device: str) -> ast.Dict:
    """The dictionary without noise and defaults, sorted by key; the target's own device is written `device`."""
    kept = []
    for key, item in zip(value.keys, value.values, strict=True):
        label = key.value if isinstance(key, ast.Constant) else None
        if label in NOISE or ast.unparse(item) in DEFAULTS[name].get(label, ()):
            continue
        kept.append((str(label), key, OwnDevice(device).visit(item)))
    kept.sort(key=lambda entry: entry[0])
    return ast.Dict(keys=[key for _, key, _ in kept], values=[item for *_, item in kept])


class OwnDevice(ast.NodeTransformer):
    """DeviceProperties(type='cuda', …): the properties of the target are the target's, not the kernel's."""

    def __init__(self, device: str):
        self.device = device

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) != "DeviceProperties":
            return self.generic_visit(node)
        kinds = [k.value.value for k in node.keywords if k.arg == "type" and isinstance(k.value, ast.Constant)]
        if kinds == [self.device]:
            return ast.Name("device")
        return ast.Call(node.func, node.args, [k for k in node.keywords if k.arg != "index"])


def _layout(node: ast.AST | None, indent: int, used: int, split: bool = False) -> str:
    """`node` on one line where it fits, else one element a line. `used`: characters before and behind it."""
    text = "None" if node is None else ast.unparse(node)
    if not split and indent + used + len(text) <= WIDTH:
        return text
    inner, close = " " * (indent + 4), " " * indent
    if isinstance(node, ast.Dict) and node.keys:
        lines = []
        for key, value in zip(node.keys, node.values, strict=True):
            name = f"{ast.unparse(key)}: " if key else "**"
            lines.append(f"{inner}{name}{_layout(value, indent + 4, len(name) + 1)},")
        return "\n".join(["{", *lines, f"{close}}}"])
    if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1:
        start, end = "[]" if isinstance(node, ast.List) else "()"
        lines = [f"{inner}{_layout(element, indent + 4, 1)}," for element in node.elts]
        return "\n".join([start, *lines, f"{close}{end}"])
    if isinstance(node, ast.List) and node.elts:
        return f"[{_layout(node.elts[0], indent, used + 2)}]"
    return text
