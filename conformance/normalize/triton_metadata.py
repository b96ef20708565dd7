"""Formats the decorator of a Triton kernel: size hints, triton_meta and inductor_meta. Omits default values.

Inductor's heuristics read the decorator when they compile and launch the kernel. So a key is removed only when it is in
one of the tables below: it says nothing about the kernel, or it has the value that is stated there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

WIDTH = 110

#: Always removed: key → what it says. None of them changes the kernel.
IGNORED = {
    "filename": "path of the file that Inductor wrote the kernel to",
    "kernel_name": "the kernel's name, which its function has too",
    "backend_hash": "hash of the installed Triton and the driver",
    "store_cubin": "whether Triton keeps the binary",
    "autotune_local_cache": "cache switch",
    "autotune_remote_cache": "cache switch",
    "force_disable_caches": "cache switch",
}

#: Removed when it has this value, which most kernels have on all supported versions of torch. Another value stays.
DEFAULTS: dict[str, dict[str, tuple[str, ...]]] = {
    "triton_meta": {
        "device": ("device",),  # the properties of the target itself
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
        "autotune_hints": ("set()", "()"),  # a set before torch 2.15
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
#: The same for keywords of the decorator itself.
KEYWORDS = {"min_elem_per_thread": "0"}

#: Key → the text that a kernel has when its heuristic reads the key. Inductor writes the key for every kernel; without
#: the text it is removed.
READ_WITH = {"mix_order_reduction_allow_multi_stages": "RSPLIT_SIZE"}


#: Device type → how Inductor calls it in kernels, where that is not its name alone: torch built for ROCm calls it hip.
_KINDS = {"cuda": ("cuda", "hip")}

#: A decorator as Inductor writes it, before the function that it decorates.
_DECORATOR = re.compile(
    r"^@(?P<call>triton_heuristics\.\w+\(\n(?:[ \t]+.*\n|\n)*\))(?=\n@triton\.jit\ndef )", re.MULTILINE
)


def without_properties(text: str, device: str) -> str:
    """The source of a Triton kernel without the properties of its device, which `format_decorators` would remove.

    So equal kernels of several targets are equal texts, and rules are applied to one of them.
    """
    kinds = "|".join(_KINDS.get(device, (device,)))
    return re.sub(rf"(?<='device': )DeviceProperties\(type='({kinds})'[^()]*\)", r"DeviceProperties(type='\1')", text)


def format_decorators(text: str, device: str) -> str:
    """The source of a Triton kernel with formatted decorators. Every other line stays as Inductor wrote it."""
    if text.count("triton_heuristics.") == 1 and (alone := _DECORATOR.search(text)):
        try:  # the usual kernel has one, and its function need not be parsed
            call = ast.parse(alone["call"], mode="eval").body
        except SyntaxError:
            call = None
        if isinstance(call, ast.Call):
            lines = [text[: alone.start()], _format_decorator(call, device, text), text[alone.end() :]]
            return "\n".join("".join(lines).splitlines())
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines()
    for node in reversed(tree.body):
        for call in reversed(getattr(node, "decorator_list", [])):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("triton_heuristics."):
                lines[call.lineno - 1 : call.end_lineno] = _format_decorator(call, device, text).splitlines()
    return "\n".join(lines)


def _format_decorator(call: ast.Call, device: str, source: str) -> str:
    """`@triton_heuristics.pointwise(…)` as text. Keywords keep their order; the keys of each dictionary are sorted.

    `source`: the kernel's whole source.
    """
    lines = [f"@{ast.unparse(call.func)}("]
    lines += [f"    {ast.unparse(argument)}," for argument in call.args]
    for keyword in call.keywords:
        value, name = keyword.value, keyword.arg or ""
        if name in IGNORED or ast.unparse(value) == KEYWORDS.get(name):
            continue
        if name in DEFAULTS and isinstance(value, ast.Dict):
            value = _without_defaults(name, value, device, source)
        prefix = f"{name}=" if name else "**"
        lines.append(f"    {prefix}{_layout(value, 4, len(prefix) + 1)},")
    return "\n".join([*lines, ")"])


def _without_defaults(name: str, value: ast.Dict, device: str, source: str) -> ast.Dict:
    """The dictionary `name` without ignored keys and default values, sorted by key. Writes `device` for the target."""
    kept = []
    for key, item in zip(value.keys, value.values, strict=True):
        label = str(key.value) if isinstance(key, ast.Constant) else "None"  # the place of any other key
        shown = _TargetDevice(device).visit(item)
        unread = label in READ_WITH and READ_WITH[label] not in source
        if label in IGNORED or unread:
            continue
        if label in DEFAULTS[name] and ast.unparse(shown) in DEFAULTS[name][label]:
            continue
        kept.append((label, key, shown))
    kept.sort(key=lambda entry: entry[0])
    short = ast.Dict(keys=[key for _, key, _ in kept], values=[item for *_, item in kept])
    return _signature_in_words(short) if name == "triton_meta" else short


def _signature_in_words(value: ast.Dict) -> ast.Dict:
    """Shortens `signature` to 'in_ptr0: *u8, xnumel: i32', and `configs` to 'divisible by 16: in_ptr0, xnumel'.

    Omits block sizes: the function's parameters say `tl.constexpr`. A dictionary of another form stays as it is.
    """
    try:
        values = {key.value: ast.literal_eval(item) for key, item in _signature_and_configs(value)}
    except ValueError:
        return value
    types, configs = values.get("signature"), values.get("configs")
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


def _signature_and_configs(value: ast.Dict) -> Iterator[tuple[ast.Constant, ast.expr]]:
    for key, item in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and key.value in ("signature", "configs"):
            yield key, item


def _is_block(name: str, kind: str) -> bool:
    return kind == "constexpr" and name.endswith("BLOCK")


def _argument(key: object, names: list[str]) -> str:
    """The name of the argument that a key such as `(2,)` numbers; "" for any other key."""
    if isinstance(key, tuple) and len(key) == 1 and isinstance(key[0], int) and 0 <= key[0] < len(names):
        return names[key[0]]
    return ""


class _TargetDevice(ast.NodeTransformer):
    """Writes `device` for `DeviceProperties(type='cuda', …)` of the target's own device type.

    They are properties of the target, not of the kernel. Of another device type it removes the index alone.
    """

    def __init__(self, device: str):
        self.device = device

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) != "DeviceProperties":
            return self.generic_visit(node)
        kinds = [k.value.value for k in node.keywords if k.arg == "type" and isinstance(k.value, ast.Constant)]
        if len(kinds) == 1 and kinds[0] in _KINDS.get(self.device, (self.device,)):
            return ast.Name("device")
        return ast.Call(node.func, node.args, [k for k in node.keywords if k.arg != "index"])


def _layout(node: ast.AST | None, indent: int, used: int) -> str:
    """`node` on one line if it fits, else one element a line. `used`: the characters before and after it."""
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
