"""Records the Python functions that Dynamo compiles: bytecode before and after, and guards."""

from __future__ import annotations

import contextlib
import dis
import re
import types
from collections.abc import Iterator
from pathlib import Path

from conformance.capture.model import Frame

_GUARD = re.compile(r"\+- ([A-Z][A-Z_]+): (.*)$")
#: Every frame has these guards; they say nothing about the function.
_UNINFORMATIVE = ("DIMENSION_DYNAMIC_MARKING_GUARD", "NO_HASATTR")


@contextlib.contextmanager
def record_code_objects() -> Iterator[list[tuple[types.CodeType, types.CodeType]]]:
    """Records each code object that Dynamo compiles inside the context, as (original, modified)."""
    from torch._dynamo.convert_frame import register_bytecode_hook  # depyf uses this hook too

    codes: list[tuple[types.CodeType, types.CodeType]] = []

    def hook(original: types.CodeType, modified: types.CodeType) -> None:
        codes.append((original, modified))

    handle = register_bytecode_hook(hook)
    try:
        yield codes
    finally:
        handle.remove()


def frames(codes: list[tuple[types.CodeType, types.CodeType]]) -> list[Frame]:
    """The recorded functions, readable. Call it before Dynamo is reset: Dynamo then forgets the guards."""
    return [
        Frame(
            f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})",
            _disassemble(code),
            _disassemble(modified),
            _guards(code),
        )
        for code, modified in codes
    ]


def _disassemble(code: types.CodeType) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", dis.Bytecode(code).dis())
    text = re.sub(r"(__compiled_fn_\d+)_[0-9a-f]+(?:_[0-9a-f]+)*", r"\1", text)  # random, one per process
    text = re.sub(r'(file ")[^"]*/', r"\1", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _guards(code: types.CodeType) -> list[str]:
    """What each guard checks and where it comes from, read from the guard tree that TORCH_LOGS=guards prints."""
    # Only this function finds the cache entries of a code object. Torch's own tests use it
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    guards: dict[str, None] = {}
    for entry in _debug_get_cache_entry_list(code):
        for line in str(entry.guard_manager).splitlines():
            if (match := _GUARD.search(line)) and match[1] not in _UNINFORMATIVE:
                guards[_guard_text(*match.groups())] = None
    return list(guards)


def _guard_text(kind: str, text: str) -> str:
    text = text.removeprefix("___")
    text = re.sub(r"check_global_state\(\) against .*", "check_global_state(): grad mode, autocast, threads …", text)
    text = re.sub(r", \d{9,}\)", ")", text)  # the id of an object
    text = re.sub(r", Tensor, DispatchKeySet\([^)]*\)", "", text)
    condition, *origin = (part.strip() for part in text.split("  # "))
    origin = [re.sub(r"\(user code shown is first use.*", "", part).strip() for part in origin]
    origin = [re.sub(r"^\S*/(?=\S+:\d+ in )", "", part) for part in origin]
    comment = "; ".join(part for part in origin if part and "please file a bug" not in part)
    return f"{kind.lower()}: {condition}" + (f"  # {comment}" if comment else "")
