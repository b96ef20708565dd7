"""Options whose value is optional: `--graph [STAGE]` and `--grad [NAMES]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Option → what its value looks like, and what to write in place of an option without a value.
_OPTIONS = {"--graph": ("[a-z]+", "--graph=all"), "--grad": (r"\w+(,\w+)*", "--grad=")}


def separate_optional_values(words: Sequence[str]) -> list[str]:
    """Returns the command line so that `--graph CASE` does not take the case as the value of `--graph`.

    argparse alone takes any next word as the value.
    """
    separated = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        pattern, without_value = _OPTIONS.get(word, ("", ""))
        takes_value = not following or following.startswith("-") or re.fullmatch(pattern, following)
        separated.append(without_value if pattern and not takes_value else word)
    return separated
