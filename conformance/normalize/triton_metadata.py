"""What Inductor writes above a Triton kernel: size hints, triton_meta, inductor_meta; without what is as always."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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

#: Left out while it has this value: most kernels have it on all supported versions of torch. Another value is shown.
DEFAULTS = {
    "triton_meta": {
        "device": ("device",),  # the target's own
        "constants": ("{}",),
        "native_matmul": ("False",),
        "enable_fp_fusion": ("True",),
        "launch_pdl": ("False",),
        "disable_ftz": ("False",),
    },
    "inductor_meta": {
        "grid_type": ("'Grid1D'",),
        "no_x_dim": ("False",),
        "num_reduction": ("0",),
        "optimize_mem": ("True",),
        "spill_threshold": ("16",),
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
#: The same for the decorator's own keywords.
KEYWORDS = {"min_elem_per_thread": "0"}

#: Read by the heuristic of that kind of kernel alone, and written above all.
READ_WITH = {"mix_order_reduction_allow_multi_stages": "RSPLIT_SIZE"}


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
                lines[call.lineno - 1 : call.end_lineno] = decorator(call, device, text).splitlines()
    return "\n".join(lines)


def decorator(call: ast.Call, device: str, whole: str) -> str:
    """`@triton_heuristics.pointwise(…)` as text; keywords in their own order, the dictionaries' keys sorted.

    `whole`: the kernel's source.
    """
    lines = [f"@{ast.unparse(call.func)}("]
    lines += [f"    {ast.unparse(argument)}," for argument in call.args]
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg in NOISE or ast.unparse(value) == KEYWORDS.get(keyword.arg):
            continue
        if keyword.arg in DEFAULTS and isinstance(value, ast.Dict):
            value = meta(keyword.arg, value, device, whole)
        name = f"{keyword.arg}=" if keyword.arg else "**"
        lines.append(f"    {name}{_layout(value, 4, len(name) + 1)},")
    return "\n".join([*lines, ")"])


def meta(name: str, value: ast.Dict, device: str, whole: str) -> ast.Dict:
    """The dictionary without noise and defaults, sorted by key; the target's own device is written `device`."""
    kept = []
    for key, item in zip(value.keys, value.values, strict=True):
        label = key.value if isinstance(key, ast.Constant) else None
        shown = OwnDevice(device).visit(item)
        unread = label in READ_WITH and READ_WITH[label] not in whole
        if label in NOISE or unread or ast.unparse(shown) in DEFAULTS[name].get(label, ()):
            continue
        kept.append((str(label), key, shown))
    kept.sort(key=lambda entry: entry[0])
    found = ast.Dict(keys=[key for _, key, _ in kept], values=[item for *_, item in kept])
    return signature(found) if name == "triton_meta" else found


def signature(value: ast.Dict) -> ast.Dict:
    """`'signature'` and `'configs'` in words: 'in_ptr0: *u8, xnumel: i32' and 'divisible by 16: in_ptr0, xnumel'.

    Block sizes are not named: the function's parameters say `tl.constexpr`. What is not as usual stays as it is.
    """
    try:
        given = {key.value: ast.literal_eval(item) for key, item in _wanted(value)}
    except ValueError:
        return value
    types, configs = given.get("signature"), given.get("configs")
    if not isinstance(types, dict) or not all(isinstance(part, str) for pair in types.items() for part in pair):
        return value
    words = {"signature": ", ".join(f"{n}: {t}" for n, t in types.items() if not _is_block(n, t))}
    if isinstance(configs, list) and len(configs) == 1 and isinstance(configs[0], dict):
        names = [_argument(key, list(types)) for key in configs[0]]
        if all(names) and all(each == [["tt.divisibility", 16]] for each in configs[0].values()):
            words["configs"] = f"divisible by 16: {', '.join(names) or 'none'}"
    for number, key in enumerate(value.keys):
        if isinstance(key, ast.Constant) and key.value in words:
            value.values[number] = ast.Constant(words[key.value])
    return value


def _wanted(value: ast.Dict) -> Iterator[tuple[ast.Constant, ast.expr]]:
    for key, item in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and key.value in ("signature", "configs"):
            yield key, item


def _is_block(name: str, kind: str) -> bool:
    return kind == "constexpr" and name.endswith("BLOCK")


def _argument(key: object, names: list[str]) -> str:
    """The argument that `(2,)` stands for; "" for anything else."""
    if isinstance(key, tuple) and len(key) == 1 and isinstance(key[0], int) and 0 <= key[0] < len(names):
        return names[key[0]]
    return ""


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


def _layout(node: ast.AST | None, indent: int, used: int) -> str:
    """`node` on one line where it fits, else one element a line. `used`: characters before and behind it."""
    text = "None" if node is None else ast.unparse(node)
    if indent + used + len(text) <= WIDTH:
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
