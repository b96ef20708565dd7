"""What Dynamo made of the Python functions: their bytecode before and after, and the guards."""

from __future__ import annotations

import contextlib
import dis
import re
import types
from collections.abc import Iterator
from pathlib import Path

from conformance.capture.model import Frame

_GUARD = re.compile(r"\+- ([A-Z][A-Z_]+): (.*)$")
#: The list that a frame's guards begin with says nothing about the function.
_SELF_EVIDENT = ("DIMENSION_DYNAMIC_MARKING_GUARD", "NO_HASATTR")


@contextlib.contextmanager
def record_code_objects() -> Iterator[list[tuple[types.CodeType, types.CodeType]]]:
    """The code objects that Dynamo compiles inside, with those that it runs instead."""
    from torch._dynamo.convert_frame import register_bytecode_hook  # the hook that depyf uses, 2.11 to 2.15

    codes: list[tuple[types.CodeType, types.CodeType]] = []

    def hook(original: types.CodeType, modified: types.CodeType) -> None:
        codes.append((original, modified))

    handle = register_bytecode_hook(hook)
    try:
        yield codes
    finally:
        handle.remove()


def frames(codes: list[tuple[types.CodeType, types.CodeType]]) -> list[Frame]:
    """Readable; to be called before Dynamo is reset, which forgets the guards."""
    return [
        Frame(
            f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})",
            _dis(code),
            _dis(new),
            _guards(code),
        )
        for code, new in codes
    ]


def _dis(code: types.CodeType) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", dis.Bytecode(code).dis())
    text = re.sub(r"(__compiled_fn_\d+)_[0-9a-f]+(?:_[0-9a-f]+)*", r"\1", text)  # a random number for the process
    text = re.sub(r'(file ")[^"]*/', r"\1", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _guards(code: types.CodeType) -> list[str]:
    """From the tree of guards as torch prints it (TORCH_LOGS=guards): what is checked, and where it comes from."""
    # the only way from a function to its cache entries, 2.11 to 2.15; torch's own Depyf and tests go through it
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    found: dict[str, None] = {}
    for entry in _debug_get_cache_entry_list(code):
        for line in str(entry.guard_manager).splitlines():
            if (match := _GUARD.search(line)) and match[1] not in _SELF_EVIDENT:
                found[_guard(*match.groups())] = None
    return list(found)


def _guard(kind: str, text: str) -> str:
    text = text.removeprefix("___")
    text = re.sub(r"check_global_state\(\) against .*", "check_global_state(): grad mode, autocast, threads …", text)
    text = re.sub(r", \d{9,}\)", ")", text)  # the id of an object
    text = re.sub(r", Tensor, DispatchKeySet\([^)]*\)", "", text)
    said, *origin = (part.strip() for part in text.split("  # "))
    origin = [re.sub(r"\(user code shown is first use.*", "", part).strip() for part in origin]
    origin = [re.sub(r"^\S*/(?=\S+:\d+ in )", "", part) for part in origin]
    comment = "; ".join(part for part in origin if part and "please file a bug" not in part)
    return f"{kind.lower()}: {said}" + (f"  # {comment}" if comment else "")
