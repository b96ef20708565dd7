"""Whether the loops of C++ kernels are vectorised, and why not."""

from __future__ import annotations

from conformance.facts.kernels import label
from conformance.facts.model import Fact, Seen


def vectorised(seen: Seen) -> Fact | None:
    """One of yes, no, partly and none (no loop); with reasons, one for each loop nest where they differ."""
    if not seen.cpp:
        return None
    found = []  # (label, word, text)
    for number, kernel in enumerate(seen.kernels, 1):
        nests = [nest for nest in kernel.get("nests", []) if nest["vectorised"]]
        for position, nest in enumerate(nests, 1):
            where = label(kernel, number) + (f" nest {position}" if len(nests) > 1 else "")
            found.append((where, nest["vectorised"], f"{nest['vectorised']}: {nest['reason']}"))
    words = list(dict.fromkeys(word for _, word, _ in found))
    texts = list(dict.fromkeys(text for _, _, text in found))
    if not found:
        return Fact("none", ("none: no loop",))
    word = words[0] if len(words) == 1 else "partly"
    if len(texts) == 1:
        return Fact(word, (texts[0],))
    return Fact(word, (word, *(f"{where}: {text}" for where, _, text in found)))
