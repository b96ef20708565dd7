"""Options whose value may be left out, told apart from the word that follows them."""

from __future__ import annotations

import re
from collections.abc import Sequence


def separate_optional_values(words: Sequence[str]) -> list[str]:
    """The command line with `--graph` and `--grad` told apart from what follows them: `show --graph CASE`.

    argparse gives an option with an optional value whatever comes next.
    """
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=False):
        alone = not after or after.startswith("-")
        if word == "--graph" and not (alone or re.fullmatch("[a-z]+", after)):
            found.append("--graph=all")
        elif word == "--grad" and not (alone or re.fullmatch(r"\w+(,\w+)*", after)):
            found.append("--grad=")
        else:
            found.append(word)
    return found
