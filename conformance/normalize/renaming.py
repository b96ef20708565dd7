"""Renames variables that Inductor numbers with a counter: by order of first appearance.

Code that is only numbered differently then has the same text. Every renaming here is one-to-one within the text that it
gets: two texts become equal only when one is the other with renamed variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

#: Names in a Triton function: tmp3, _tmp3, tmp3_mean share the number; x0, r0_1, ks0 are index and size variables.
TRITON = re.compile(r"(?<![\w.])(?P<name>(?P<core>_?tmp|[xyzw]|r\d+_)(?P<number>\d+)(?P<rest>(?:_[a-z]\w*)?))(?![\w])")
#: Variables in a C++ kernel: tmp_acc0, tmp_acc0_vec, masked_tmp_acc0_vec share the number; x0, x0_tail are loops.
CPP = re.compile(
    r"\b(?P<name>(?P<before>(?:masked_|scalar_|_)*)(?P<core>tmp_acc|tmp|welford_helper|cascade_helper|x|y|r)"
    r"(?P<number>\d+)(?P<rest>(?:_[a-z]\w*)?))\b"
)


def renumber(text: str, pattern: re.Pattern[str]) -> str:
    """Renumbers what `pattern` matches from 0, each core separately: `buf7, buf2` → `buf0, buf1`.

    `pattern` has the groups `core` and `number`, and may have `rest`. Removes nothing.
    """
    new_numbers: dict[str, dict[str, int]] = {}

    def rename(match: re.Match[str]) -> str:
        groups = match.groupdict(default="")
        numbers = new_numbers.setdefault(groups["core"].lstrip("_"), {})
        number = numbers.setdefault(groups["number"], len(numbers))
        return f"{groups['core']}{number}{groups.get('rest', '')}"

    return pattern.sub(rename, text)


def renumber_symbols(text: str, names: str) -> str:
    """Renumbers ks0, ps1, s77, u0 … through a whole text. `names`: the letters, separated by |."""
    return renumber(text, re.compile(rf"(?<![\w.])(?P<core>{names})(?P<number>\d+)(?!\w)"))


def renumber_triton_variables(text: str) -> str:
    """Renumbers the variables in each function of a Triton kernel's source, each function separately.

    A function cannot use a variable of another, so the functions need not agree on a number.
    """
    parts = re.split(r"^(?=def )", text, flags=re.MULTILINE)
    return "".join([parts[0], *(renumber(part, TRITON) for part in parts[1:])])


def rename_arguments(text: str) -> str:
    """Renames the arguments of `call` in the order in which they are unpacked: arg3_1 → arg0, primals_5 → primals_1,
    mul_7 → mul. FX nodes give these names. Two arguments never get the same name.
    """
    mapping: dict[str, str] = {}
    for match in re.finditer(r"^\s*\(?([\w, ]+?),?\s*\)? = args$", text, re.MULTILINE):
        for name in re.split(r",\s*", match[1].strip()):
            if name and name not in mapping and not re.fullmatch(r"(buf|s|u|ks|ps)\d+", name):
                mapping[name] = _new_argument(name, mapping.values())
    return replace_names(text, mapping)


def _new_argument(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    argument = re.fullmatch(r"((?:\w+_)?arg)\d+_\d+", name)
    if argument:
        candidates: Callable[[int], str] = (argument[1] + "{}").format
    else:
        base = re.sub(r"_\d+$", "", name)
        numbered = base in ("primals", "tangents")
        candidates = lambda n: f"{base}_{n + 1}" if numbered else base if n == 0 else f"{base}_{n}"  # noqa: E731
    return next(new for n in range(len(taken) + 1) if (new := candidates(n)) not in taken)


def kernel_names(names: Iterable[str]) -> dict[str, str]:
    """Old → new names of kernels: each is numbered among the kernels of the same name, not through the module.

    One more kernel then renames no kernel of another name.
    """
    mapping: dict[str, str] = {}
    for name in names:
        numbered = re.fullmatch(r"(.*?)_\d+", name)
        if numbered is None:
            mapping[name] = name
        elif name not in mapping:
            taken = set(mapping.values())
            candidates = (f"{numbered[1]}_{n}" for n in range(len(taken) + 1))
            mapping[name] = next(new for new in candidates if new not in taken)
    return mapping


def replace_names(text: str, mapping: dict[str, str]) -> str:
    """Replaces whole names, all at once. A name behind a dot is an attribute and stays."""
    mapping = {old: new for old, new in mapping.items() if old != new}
    if not mapping:
        return text
    alternatives = "|".join(re.escape(name) for name in sorted(mapping, key=len, reverse=True))
    return re.sub(rf"(?<![\w.])(?:{alternatives})(?!\w)", lambda match: mapping[match[0]], text)


_TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<comment>//[^\n]*)|(?P<loop>\bfor\b)|(?P<open>[({])|(?P<close>[)};])|"
    + CPP.pattern
)
_DECLARED = re.compile(r"(?:\b(?!return|else|case|goto|delete|throw)[A-Za-z_]\w*|\w>+|[\w>][*&])[ \t]+$")


@dataclass
class _Scope:
    """A C++ block: the variables declared in it, and the next free number of each kind.

    `head`: the text is still in the head of a `for`, which stands at `depth` of parentheses; its block follows.
    """

    parent: _Scope | None = None
    head: bool = False
    depth: int = 0
    names: dict[str, int] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)  # tmp_acc0_vec gets the number of tmp_acc0
    free: dict[str, int] = field(default_factory=dict)

    def chain(self) -> Iterator[_Scope]:
        """This block, then the blocks around it."""
        scope: _Scope | None = self
        while scope:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> int | None:
        """The new number of a variable; None when neither this block nor one around it declares it."""
        return next((scope.names[name] for scope in self.chain() if name in scope.names), None)

    def declare(self, name: str, core: str, number: str) -> int:
        """Gives a variable of this block its new number. A variable of a block around it keeps its own."""
        if name in self.names:
            return self.names[name]
        kind, new = (core, number), None
        if self.find(name) is None:
            new = next((scope.numbers[kind] for scope in self.chain() if kind in scope.numbers), None)
        if new is None:
            new = self.free.get(core, 0)
            self.free[core] = new + 1
        self.names[name] = self.numbers[kind] = new
        return new


class _Renumbering:
    """One pass over the tokens of a C++ text."""

    def __init__(self, text: str) -> None:
        self.text, self.scope, self.depth = text, _Scope(), 0

    def token(self, match: re.Match[str]) -> str:
        """The text that replaces a token."""
        if match["name"]:
            declared = _DECLARED.search(self.text, max(0, match.start() - 120), match.start())
            if declared or self.scope.find(match["name"]) is None:
                self.scope.declare(match["name"], match["core"], match["number"])
            return self.variable(match)
        if match["string"]:  # an assertion's message names the variables too
            return CPP.sub(self.variable, match[0])
        if match["loop"]:
            self.push(head=True)
        elif match["open"] == "{" and not self.at_head():
            self.push()
        elif match["open"] == "{":
            self.scope.head = False
        elif match["open"] or match["close"] == ")":
            self.depth += 1 if match["open"] else -1
        elif match["close"]:
            self.close(block=match["close"] == "}")
        return match[0]

    def variable(self, match: re.Match[str]) -> str:
        number = self.scope.find(match["name"])
        return match[0] if number is None else f"{match['before']}{match['core']}{number}{match['rest']}"

    def at_head(self) -> bool:
        return self.scope.head and self.scope.depth == self.depth

    def push(self, head: bool = False) -> None:
        self.scope = _Scope(self.scope, head, self.depth, free=dict(self.scope.free))

    def close(self, block: bool) -> None:
        """Ends a block or a statement. Each of them also ends the loops without braces around it."""
        if block:
            self.scope = self.scope.parent or self.scope
        while self.at_head() and self.scope.parent:
            self.scope = self.scope.parent


def renumber_cpp_variables(text: str) -> str:
    """Renumbers the variables of C++ by the block that declares them: one block does not renumber another beside it.

    Two variables that a statement can both use never get the same name.
    """
    return _TOKEN.sub(_Renumbering(text).token, text)
