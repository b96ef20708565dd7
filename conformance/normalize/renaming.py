"""Names that are only counters, written by order of first appearance: a renumbering is no difference.

Every renaming here is one-to-one within the text it is given, so two texts become equal only where one is the other
with other names.
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


def by_appearance(text: str, pattern: re.Pattern[str], shape: str = "{core}{number}") -> str:
    """Numbers what `pattern` matches (groups `core`, `number`, perhaps `rest`) from 0, each core by itself."""
    seen: dict[str, dict[str, int]] = {}

    def rename(match: re.Match[str]) -> str:
        groups = match.groupdict(default="")
        numbers = seen.setdefault(groups["core"].lstrip("_"), {})
        number = numbers.setdefault(groups["number"], len(numbers))
        return shape.format(core=groups["core"], number=number) + groups.get("rest", "")

    return pattern.sub(rename, text)


def symbols(text: str, names: str) -> str:
    """Numbers ks0, ps1, s77, u0 … (`names`: the letters, separated by |) through a whole text."""
    return by_appearance(text, re.compile(rf"(?<![\w.])(?P<core>{names})(?P<number>\d+)(?!\w)"))


def triton_functions(text: str) -> str:
    """Names inside each function of a Triton kernel's source, each function by itself."""
    parts = re.split(r"^(?=def )", text, flags=re.MULTILINE)
    return "".join([parts[0], *(by_appearance(part, TRITON) for part in parts[1:])])


def arguments(text: str) -> str:
    """The arguments of `call`: arg3_1 → arg0, primals_5 → primals_1, mul_7 → mul, in the order they are unpacked."""
    mapping: dict[str, str] = {}
    for match in re.finditer(r"^\s*\(?([\w, ]+?),?\s*\)? = args$", text, re.MULTILINE):
        for name in re.split(r",\s*", match[1].strip()):
            if name and name not in mapping and not re.fullmatch(r"(buf|s|u|ks|ps)\d+", name):
                mapping[name] = _fresh(name, mapping.values())
    return replace(text, mapping)


def _fresh(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    argument = re.fullmatch(r"((?:\w+_)?arg)\d+_\d+", name)
    if argument:
        candidates: Callable[[int], str] = (argument[1] + "{}").format
    else:
        base = re.sub(r"_\d+$", "", name)
        numbered = base in ("primals", "tangents")
        candidates = lambda n: f"{base}_{n + 1}" if numbered else base if n == 0 else f"{base}_{n}"  # noqa: E731
    return next(new for n in range(len(taken) + 1) if (new := candidates(n)) not in taken)


def kernels(names: Iterable[str]) -> dict[str, str]:
    """Kernels are numbered among those of their own name, not through the module: one more renumbers no other."""
    mapping: dict[str, str] = {}
    for name in names:
        base, number = re.fullmatch(r"(.*?)(_\d+)?", name).groups()
        if number is None:
            mapping[name] = name
        elif name not in mapping:
            taken = set(mapping.values())
            mapping[name] = next(new for n in range(len(taken) + 1) if (new := f"{base}_{n}") not in taken)
    return mapping


def replace(text: str, mapping: dict[str, str]) -> str:
    """Replaces whole names, all at once; what follows a dot is an attribute and stays."""
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
    """A C++ block: the names declared in it, and the number that the next one of each kind gets.

    `head`: it is still the head of a `for`, which stands at `depth` of parentheses; its block is yet to come.
    """

    parent: _Scope | None = None
    head: bool = False
    depth: int = 0
    names: dict[str, int] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)  # tmp_acc0_vec goes with tmp_acc0
    free: dict[str, int] = field(default_factory=dict)

    def chain(self) -> Iterator[_Scope]:
        scope: _Scope | None = self
        while scope:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> int | None:
        return next((scope.names[name] for scope in self.chain() if name in scope.names), None)

    def declare(self, name: str, core: str, number: str) -> int:
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


class _Blocks:
    """One pass over the tokens of a C++ text."""

    def __init__(self, text: str) -> None:
        self.text, self.scope, self.depth = text, _Scope(), 0

    def token(self, match: re.Match[str]) -> str:
        if match["name"]:
            declared = _DECLARED.search(self.text, max(0, match.start() - 120), match.start())
            if declared or self.scope.find(match["name"]) is None:
                self.scope.declare(match["name"], match["core"], match["number"])
            return self.known(match)
        if match["string"]:  # an assertion's message names the variables too
            return CPP.sub(self.known, match[0])
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

    def known(self, match: re.Match[str]) -> str:
        number = self.scope.find(match["name"])
        return match[0] if number is None else f"{match['before']}{match['core']}{number}{match['rest']}"

    def at_head(self) -> bool:
        return self.scope.head and self.scope.depth == self.depth

    def push(self, head: bool = False) -> None:
        self.scope = _Scope(self.scope, head, self.depth, free=dict(self.scope.free))

    def close(self, block: bool) -> None:
        """A block ends, or a statement; loops without braces end with either."""
        if block:
            self.scope = self.scope.parent or self.scope
        while self.at_head() and self.scope.parent:
            self.scope = self.scope.parent


def cpp_blocks(text: str) -> str:
    """Variables of C++ by the block that declares them: blocks do not renumber each other."""
    return _TOKEN.sub(_Blocks(text).token, text)
