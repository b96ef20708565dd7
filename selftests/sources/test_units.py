"""The functions of a Python file, and which of them two texts differ in."""

from __future__ import annotations

import pytest

from conformance.sources.units import SKELETON, changed_units, units_of

TEXT = '''"""A module."""
import os

VALUE = 1


@register
def lower(x, flag=False):
    """Lowers."""
    y = x + 1
    return y


class Kernel(Base):
    size: int = 3

    def load(self, name):
        def inner():
            return name
        return inner()

    @property
    def store(self):
        return 1


@triton.jit
def helper(a):
    return a
'''


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("y = x + 1", "y = x + 2", {"lower"}),
        ("return name", "return name + 1", {"Kernel.load"}),
        ("return 1\n", "return 2\n", {"Kernel.store"}),
        ("VALUE = 1", "VALUE = 2", {SKELETON}),
        ("flag=False", "flag=True", {SKELETON}),
        ("@register", "@register(1)", {SKELETON}),
        ("size: int = 3", "size: int = 4", {SKELETON}),
        ("class Kernel(Base)", "class Kernel(Other)", {SKELETON}),
        ("return a\n", "return a + 1\n", {SKELETON}),  # Triton compiles its text
        (
            "    @property\n    def store",
            "    def fetch(self):\n        return 1\n\n    @property\n    def store",
            {SKELETON},
        ),
        ("def load(self, name)", "def load2(self, name)", {SKELETON}),
        ("Lowers.", "Lowers it.", set()),
        ("A module.", "The module.", set()),
        ("y = x + 1", "y = x + 1  # one more", set()),
        ("y = x + 1", "y = (x +\n         1)", set()),
    ],
)
def test_changed_units(old, new, changed):
    assert TEXT.count(old) >= 1
    assert changed_units(TEXT, TEXT.replace(old, new, 1)) == changed


def test_a_function_that_is_defined_twice_has_both_texts():
    two = "if A:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n"
    assert changed_units(two, two.replace("return 1", "return 3")) == {"f"}
    assert changed_units(two, two.replace("return 2", "return 3")) == {"f"}


def test_lines_belong_to_the_outermost_function_with_its_decorators():
    units = units_of(TEXT)
    names = {units.at(number) for number, _ in enumerate(TEXT.splitlines(), 1)}
    assert names == {SKELETON, "lower", "Kernel.load", "Kernel.store"}
    lines = TEXT.splitlines()
    assert units.at(lines.index("@register") + 1) == "lower"
    assert units.at(lines.index("            return name") + 1) == "Kernel.load"
    assert units.at(lines.index("VALUE = 1") + 1) == SKELETON


def test_python_that_cannot_be_read():
    with pytest.raises(SyntaxError):
        changed_units(TEXT, TEXT + "def (")
