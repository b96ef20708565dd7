"""Digests: what a table of digests stores of an item instead of its text: facts in short, and a digest of the text.

    kernels  2 (0 forward, 2 backward)
    kinds    1 pointwise, 1 scatter
    …
    --- digest
    0x3f7c0a52b19e4d68

The digest changes with any character of the text. The facts say in short what became of the case. A line of a table has
the same, without facts that are 0 or none: `topk-f32-backward-sample0  0x3f7c0a52b19e4d68  kernels 2 (0 forward, …`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from conformance.normalize.text import canonical_text, facts_block, parse_facts
from conformance.storage.runs import ItemRecord

#: The facts of a digest, in this order. A capture has all of them but `vectorised`, or only `code` if compiling raised.
FACTS = ("code", "kernels", "kinds", "vectorised", "extern", "fallbacks", "unfused", "bytes", "buffers", "graph_breaks")
#: Of those that a line leaves out: what they are then.
_LEFT_OUT = {
    "kernels": "0",
    "kinds": "none",
    "extern": "none",
    "fallbacks": "none",
    "unfused": "0",
    "bytes": "none",
    "buffers": "0",
    "graph_breaks": "0",
}
_SECTION = "--- digest"
_NONE = "none"
_SEPARATOR = "; "
_DIGITS = 16
_DIGEST = re.compile(rf"0x[0-9a-f]{{{_DIGITS}}}")


def digest_text(item: ItemRecord) -> str:
    """The digest of an item's text, with its facts in short, as canonical text. The item must have a text."""
    digest = hashlib.sha256(canonical_text(item.text).encode()).hexdigest()[:_DIGITS]
    return _text(f"0x{digest}", short_facts(item.fact_values))


def in_form_of(stored: str, item: ItemRecord) -> str:
    """The item's text as it has to be compared with a stored text: the text itself, or its digest."""
    return digest_text(item) if is_digest(stored) else canonical_text(item.text)


def is_digest(text: str) -> bool:
    """Whether a text is a digest and not the whole text."""
    *_, section, digest = ["", "", *text.rstrip("\n").split("\n")]
    return section == _SECTION and bool(_DIGEST.fullmatch(digest))


def short_facts(values: Mapping[str, Any]) -> dict[str, str]:
    """Fact → a few words, in the order of FACTS. `values`: as Facts.values gives them."""
    if "code" in values:
        return {"code": str(values["code"])}
    found = _LEFT_OUT | {name: _short(name, values) for name in FACTS if values.get(name) is not None}
    return {name: found[name] for name in FACTS if name in found}


def _short(name: str, values: Mapping[str, Any]) -> str:
    value = values[name]
    if name == "kernels" and values.get("kernels.forward", value) != value:
        return f"{value} ({values['kernels.forward']} forward, {values['kernels.backward']} backward)"
    if isinstance(value, list):
        return ", ".join(_counted(each, values.get(f"{name}.{each}", 1)) for each in dict.fromkeys(value)) or _NONE
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counted(name: str, count: Any) -> str:
    name = re.sub(r"[;\s]+", " ", str(name))
    return name if count == 1 else f"{count} {name}"


def line_of(name: str, text: str, *, confirmed: bool) -> str:
    """The line of a table. `name`: of the case, without its operator. `text`: a digest."""
    digest = text.rstrip("\n").rpartition("\n")[2]
    facts = [f"{fact} {value}" for fact, value in parse_facts(text).items() if _LEFT_OUT.get(fact) != value]
    return f"{name}  {digest}{'*' * confirmed}  {_SEPARATOR.join(facts)}".rstrip()


def text_of_line(line: str) -> tuple[str, str, bool] | None:
    """(name, digest text, whether it is confirmed) of a table's line; None for an unreadable one."""
    parts = line.split("  ")
    if len(parts) not in (2, 3) or not parts[0] or not _DIGEST.fullmatch(parts[1].removesuffix("*")):
        return None
    written = dict(each.partition(" ")[::2] for each in parts[2].split(_SEPARATOR)) if len(parts) == 3 else {}
    if any(fact not in FACTS or not value for fact, value in written.items()):
        return None
    found = written if "code" in written else _LEFT_OUT | written
    facts = {fact: found[fact] for fact in FACTS if fact in found}
    return parts[0], _text(parts[1].removesuffix("*"), facts), parts[1].endswith("*")


def _text(digest: str, facts: Mapping[str, str]) -> str:
    return canonical_text(f"{facts_block(facts)}\n{_SECTION}\n{digest}\n")
