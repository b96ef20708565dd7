"""Writes each entry of a Triton kernel's metadata on a line of its own, so that an edit changes one line only.

    @triton_heuristics.pointwise(size_hints={'x': 1024}, inductor_meta={'num_load': 2})

becomes

    @triton_heuristics.pointwise
    # size_hints.x = 1024
    # inductor_meta.num_load = 2
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

_DECORATOR = re.compile(r"^@(triton_heuristics\.\w+\((?:.*\n)*?)^(?=@triton\.jit|def )", re.MULTILINE)
#: From a kernel's signature to the end of its arguments.
_REPEATED = re.compile(
    r"(?P<before>'signature': '(?P<signature>.*)'(?:.*\n)+?@triton\.jit\ndef \w+\()(?P<arguments>.*)\):$", re.MULTILINE
)
#: Entries that are written as one value: their own keys are sizes.
_WHOLE = ("tiling_scores",)
#: The end of an argument whose value is a constant of the kernel, such as `XBLOCK : tl.constexpr`.
_CONSTANT = " : tl.constexpr"


@functools.lru_cache(maxsize=8192)
def split_metadata(text: str) -> str:
    """Returns the text of a snapshot with split metadata.

    Removes the arguments in `def kernel(…)` where they repeat the signature.
    """
    text = _REPEATED.sub(_without_repeated_arguments, text)
    return _DECORATOR.sub(lambda match: "\n".join(_decorator_lines(match[1])) + "\n", text)


def _without_repeated_arguments(match: re.Match[str]) -> str:
    """The kernel without its arguments; unchanged if the signature has other names or another order."""
    arguments = match["arguments"].split(", ")
    blocks = {name.removesuffix(_CONSTANT) for name in arguments if name.endswith(_CONSTANT)}
    signature = [name.partition(":")[0] for name in match["signature"].split(", ")]
    others = [name for name in arguments if not name.endswith(_CONSTANT)]
    repeats = others == [name for name in signature if name not in blocks]
    return f"{match['before']}…):" if repeats else match[0]


def _decorator_lines(call: str) -> Iterator[str]:
    try:
        parsed = ast.parse(call.strip(), mode="eval").body
    except SyntaxError:
        parsed = None
    if not isinstance(parsed, ast.Call):
        yield from f"@{call}".rstrip("\n").split("\n")
        return
    yield f"@{ast.unparse(parsed.func)}"
    for keyword in parsed.keywords:
        yield from _entry_lines(str(keyword.arg), keyword.value)


def _entry_lines(path: str, value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Dict) and value.keys and not path.endswith(_WHOLE):
        for key, inner in zip(value.keys, value.values, strict=True):
            name = str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key) if key else "**"
            yield from _entry_lines(f"{path}.{name}", inner)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str) and path.endswith((".signature", ".configs")):
        kind, _, arguments = value.value.rpartition(": ") if path.endswith(".configs") else ("", "", value.value)
        for argument in arguments.split(", "):
            yield " ".join(filter(None, ("#", path, kind, argument)))
    else:
        yield f"# {path} = {ast.unparse(value)}"
