"""Numbers of a pretended device that say how they are used.

Inductor compares the number of multiprocessors with a size far more often than it writes the number into code. For two
devices, such a comparison often ends alike where the numbers differ. So a comparison is a question of its own, and only
what needs the number itself asks for the number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
_COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One operation with a plain number. `reflected`: the plain number is on the left."""

    operation: str
    other: float
    reflected: bool = False

    def apply(self, value: Any) -> Any:
        function = (_ARITHMETIC | _COMPARISONS)[self.operation]
        return function(self.other, value) if self.reflected else function(value, self.other)


@dataclass(frozen=True)
class Comparison:
    """A question: how a number of the device compares, after some arithmetic. `question`: for the number."""

    question: str
    steps: tuple[Step, ...]

    def answer(self, value: Any) -> bool:
        """The answer of a device on which the number is `value`."""
        for step in self.steps:
            value = step.apply(value)
        return bool(value)


class AskedNumber:
    """A number of the device. `value`: the number, for records of what was decided; reading it asks nothing.

    `note`: gets each question and its answer: a Comparison, or `question` where the number itself is needed. It is no
    int: C code would read an int's value without asking.
    """

    def __init__(
        self, question: str, base: int, note: Callable[[Any, Any], None], steps: tuple[Step, ...] = ()
    ) -> None:
        self._question, self._base, self._note, self._steps = question, base, note, steps
        self.value = base
        for step in steps:
            self.value = step.apply(self.value)

    def plain(self) -> int:
        """The number itself."""
        self._note(self._question, self._base)
        return self.value

    def _calculate(self, operation: str, other: Any, reflected: bool = False) -> Any:
        if isinstance(other, AskedNumber):  # of the two numbers, this one stays a question
            other = other.plain()
        step = Step(operation, other, reflected) if _is_plain(other) else None
        if step is not None:
            return AskedNumber(self._question, self._base, self._note, (*self._steps, step))
        function, value = _ARITHMETIC[operation], self.plain()
        return function(other, value) if reflected else function(value, other)

    def _compare(self, operation: str, other: Any) -> Any:
        if not _is_plain(other):
            return _COMPARISONS[operation](self.plain(), other)
        comparison = Comparison(self._question, (*self._steps, Step(operation, other)))
        answer = comparison.answer(self._base)
        self._note(comparison, answer)
        return answer

    def __add__(self, other: Any) -> Any:
        return self._calculate("+", other)

    def __radd__(self, other: Any) -> Any:
        return self._calculate("+", other, reflected=True)

    def __sub__(self, other: Any) -> Any:
        return self._calculate("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._calculate("-", other, reflected=True)

    def __mul__(self, other: Any) -> Any:
        return self._calculate("*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._calculate("*", other, reflected=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._calculate("//", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._calculate("//", other, reflected=True)

    def __mod__(self, other: Any) -> Any:
        return self._calculate("%", other)

    def __rmod__(self, other: Any) -> Any:
        return self._calculate("%", other, reflected=True)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __bool__(self) -> bool:
        return bool(self._compare("!=", 0))

    def __index__(self) -> int:
        return self.plain()

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.plain())

    def _sympy_(self) -> Any:
        import sympy

        return sympy.Integer(self.plain())

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __format__(self, spec: str) -> str:
        return format(self.plain(), spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.plain(), name)


def _with_the_number(name: str) -> Callable[..., Any]:
    def method(number: AskedNumber, *others: Any) -> Any:
        return getattr(number.plain(), name)(*(int(each) if isinstance(each, AskedNumber) else each for each in others))

    return method


for _name in (
    "abs", "neg", "pos", "invert", "round", "ceil", "floor", "trunc", "pow", "rpow", "divmod", "rdivmod", "truediv",
    "rtruediv", "lshift", "rlshift", "rshift", "rrshift", "and", "rand", "or", "ror", "xor", "rxor",
):  # fmt: skip
    setattr(AskedNumber, f"__{_name}__", _with_the_number(f"__{_name}__"))


def _is_plain(other: Any) -> bool:
    return type(other) in (int, float)
