"""Functions and constants of a module exchanged for those of another text, while both are imported."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import types

import pytest

from conformance.bisection.differences import differences
from conformance.bisection.exchange import Exchange, ExchangeError, config_modules, function_index
from conformance.sources import executed_lines

OLD = """
import functools

import dataclasses
import typing

LIMIT = 3
TABLE = {}
NAMES = ["a"]


def register(function):
    TABLE[function.__name__] = function
    return functools.wraps(function)(lambda *args: function(*args))


@register
def mul(a, b=1):
    return a * b


@functools.cache
def cached(x):
    return LIMIT + x


def outer():
    def inner():
        return 1
    return inner()


class Base:
    def inherited(self):
        return "base"

    def size(self):
        return 1


class Kernel(Base):
    width = 1

    def load(self):
        return "old"

    @property
    def name(self):
        return "old name"

    @staticmethod
    def plain(x):
        return x

    def size(self):
        return super().size()


class Narrow(Base):
    def inherited(self):
        return "narrow"

    def helper(self):
        return "helper"


@dataclasses.dataclass
class Options:
    lanes: int

    def total(self):
        return self.lanes


class Tile(typing.NamedTuple):
    rows: int = 1


def tile():
    return Tile()
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Imports OLD as torch.made, and returns a function that exchanges everything that differs from another text."""
    file = tmp_path / "torch" / "made.py"
    file.parent.mkdir()
    file.write_text(OLD)
    spec = importlib.util.spec_from_file_location("torch.made", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "torch.made", module)
    monkeypatch.setattr(executed_lines, "_FOLDER", [f"{file.parent}/"])
    spec.loader.exec_module(module)

    def exchange(*edits):
        new = OLD
        for old_text, new_text in edits:
            assert old_text in new
            new = new.replace(old_text, new_text, 1)
        found = differences("made.py", OLD, new)
        texts = {"made.py": new, "made_values.py": "SCALE = 7\nTWICE = 2 * SCALE\n"}
        module.exchanged = Exchange(texts, function_index())
        module.exchanged.apply(found)
        return [(each.kind, each.name) for each in found]

    module.exchange = exchange
    return module


def test_a_function_keeps_its_identity_in_tables_and_wrappers(made):
    before = made.TABLE["mul"]
    assert made.exchange(("return a * b", "return a + b")) == [("function", "mul")]
    assert made.TABLE["mul"] is before
    assert (made.mul(2, 3), before(2, 3)) == (5, 5)


def test_defaults_and_further_arguments(made):
    made.exchange(("def mul(a, b=1):\n    return a * b", "def mul(a, b=LIMIT, *, c=4):\n    return a * b * c"))
    assert made.TABLE["mul"](2) == 24


def test_a_function_below_a_cache(made):
    made.exchange(("return LIMIT + x", "return LIMIT - x"))
    assert made.cached(1) == 2


def test_nested_functions_belong_to_the_outer_one(made):
    assert made.exchange(("return 1\n    return inner", "return 2\n    return inner")) == [("function", "outer")]
    assert made.outer() == 2


def test_methods_properties_and_static_methods(made):
    kernel = made.Kernel()
    found = made.exchange(
        ('return "old"', 'return "new"'), ('return "old name"', 'return "new name"'), ("return x\n", "return -x\n")
    )
    assert found == [("function", "Kernel.load"), ("function", "Kernel.name"), ("function", "Kernel.plain")]
    assert (kernel.load(), kernel.name, kernel.plain(3)) == ("new", "new name", -3)


def test_super_still_finds_the_base(made):
    made.exchange(("return super().size()", "return super().size() + 10"))
    assert made.Kernel().size() == 11


HELPERS = """
SCALE = math.floor(2.5)


def helper(x):
    return further(x)


def further(x):
    return x * SCALE
"""


def test_names_that_the_module_lacks_come_with_the_function(made):
    made.exchange(
        ("import functools\n", "import functools\nimport math\nfrom os import path as paths\n"),
        ("\n\ndef outer():", f"\n{HELPERS}\n\ndef outer():"),
        ("return a * b", "return helper(a) if paths else b"),
    )
    assert made.TABLE["mul"](5) == 10


METHODS = """        return self.how()

    def how(self):
        return "how"

    def inherited(self):
        return "kernel, " + super().inherited()
"""


def test_a_new_method_and_one_that_takes_the_place_of_an_inherited_one(made):
    found = made.exchange(('        return "old"\n', METHODS))
    assert ("new function", "Kernel.inherited") in found
    kernel = made.Kernel()
    assert (kernel.load(), kernel.inherited()) == ("how", "kernel, base")


@pytest.mark.parametrize("line", ["from .made_values import TWICE", "from torch.made_values import TWICE"])
def test_names_that_an_imported_module_lacks_come_along(made, monkeypatch, line):
    values = types.ModuleType("torch.made_values")
    values.__file__ = "made_values.py"
    monkeypatch.setitem(sys.modules, "torch.made_values", values)
    made.exchange(("return a * b", f"{line}\n    return a * TWICE"))
    assert made.TABLE["mul"](3) == 42


def test_the_exchanged_function_that_raised_is_known(made):
    edits = [("return LIMIT + x", "return LIMIT / 0"), ("return a * b", "return cached(a)")]
    made.exchange(*edits)
    found = differences("made.py", OLD, OLD.replace(*edits[0]).replace(*edits[1]))
    with pytest.raises(ZeroDivisionError) as raised:
        made.TABLE["mul"](3)
    assert made.exchanged.culprit(raised.value, found).name == "cached"
    wrapper = RuntimeError("while compiling")
    wrapper.__cause__ = raised.value
    assert made.exchanged.culprit(wrapper, found).name == "cached"
    assert made.exchanged.culprit(RuntimeError("elsewhere"), found) is None


def test_what_cannot_be_exchanged_is_known(made):
    with pytest.raises(NameError) as raised:
        made.exchange(("b=1", "b=NOT_THERE"))
    (difference,) = differences("made.py", OLD, OLD.replace("b=1", "b=NOT_THERE"))
    assert made.exchanged.culprit(raised.value, [difference]).name == "mul"


def test_constants_of_modules_and_classes(made):
    assert made.exchange(("LIMIT = 3", "LIMIT = 30"), ("width = 1", "width = LIMIT")) == [
        ("value", "LIMIT"),
        ("value", "Kernel.width"),
    ]
    assert (made.cached(1), made.Kernel.width) == (31, 30)


def test_comments_annotations_and_docstrings_are_no_difference():
    new = OLD.replace("def mul(a, b=1):", 'def mul(a: int, b: int = 1) -> int:\n    """Multiplies."""')
    assert differences("made.py", OLD, new.replace("return a * b", "return a * b  # product")) == []


def test_a_method_that_calls_super_now(made):
    made.exchange(('        return "old"\n', "        return super().size()\n"))
    assert made.Kernel().load() == 1


def test_a_function_that_does_not_exist_any_more_is_refused(made):
    made.TABLE.clear()
    made.mul = None
    with pytest.raises(ExchangeError, match=r"no function object of torch/made\.py: mul"):
        made.exchange(("return a * b", "return a + b"))


def test_config_modules_get_the_options_that_they_lack(monkeypatch):
    module = types.ModuleType("torch.made_config")
    vars(module).update(_config={"old": "kept", "flat": "kept"}, WIDTH=4)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert module in config_modules()
    text = "old = 1\nadded = 2 * WIDTH\nbroken = NOT_THERE\n\nclass triton:\n    deep: bool = True\n"
    text += "\nclass flat:\n    of_its_own = 1\n"
    Exchange({"made_config.py": text}, {}).add_options([module])
    assert (module._config.pop("old"), module._config.pop("flat")) == ("kept", "kept")
    assert "flat" not in vars(module), "it would hide the option"
    assert {name: each.default for name, each in module._config.items()} == {"added": 8, "triton.deep": True}


FIELDS = [("    lanes: int\n", "    rows: int\n    lanes: int = LIMIT\n"), ("self.lanes", "self.lanes * self.rows")]


def test_fields_of_a_dataclass(made):
    before = made.Options
    assert made.exchange(*FIELDS) == [("fields", "Options"), ("function", "Options.total")]
    assert made.Options is before
    assert (made.Options(2).total(), made.Options(2, lanes=5).total()) == (6, 10)
    assert [each.name for each in dataclasses.fields(before)] == ["rows", "lanes"]


def test_fields_of_a_named_tuple_in_all_modules_that_hold_it(made, monkeypatch):
    other = types.ModuleType("torch.made_other")
    other.Tile = made.Tile
    monkeypatch.setitem(sys.modules, "torch.made_other", other)
    assert made.exchange(("    rows: int = 1\n", "    rows: int = 1\n    width: int = 2\n")) == [("fields", "Tile")]
    assert made.tile() == other.Tile() == (1, 2)


def test_a_method_that_is_gone_gives_way_to_an_inherited_one(made):
    gone = OLD[OLD.index('    def inherited(self):\n        return "narrow"') : OLD.index("\n\n@dataclasses")]
    found = made.exchange((gone, "    pass\n"))
    assert found == [("removed method", "Narrow.inherited"), ("removed method", "Narrow.helper")]
    assert made.Narrow().inherited() == "base"
    assert made.Narrow().helper() == "helper"  # nothing else has that name


def test_decorators_defaults_and_constants_that_are_missing_come_along(made):
    made.exchange(
        (
            "import functools\n",
            "import functools\n\ndef twice(function):\n    return lambda self: 2 * function(self)\n",
        ),
        ("class Kernel(Base):\n", "class Kernel(Base):\n    depth = LIMIT + 1\n\n"),
        (
            '        return "old"\n',
            "        return self.deeper()\n\n    @twice\n    def deeper(self):\n        return self.depth\n",
        ),
    )
    assert made.Kernel().load() == 8


def test_a_constant_is_exchanged_in_all_modules_that_hold_it(made, monkeypatch):
    other = types.ModuleType("torch.made_other")
    other.NAMES = made.NAMES
    monkeypatch.setitem(sys.modules, "torch.made_other", other)
    made.exchange(('NAMES = ["a"]', 'NAMES = ["a", "b"]'))
    assert made.NAMES == other.NAMES == ["a", "b"]


def test_methods_of_other_files_that_classes_lack_come_along(made, monkeypatch):
    other = types.ModuleType("torch.made_other")
    exec("class Node:\n    pass", vars(other))  # noqa: S102 - a module without a file
    monkeypatch.setitem(sys.modules, "torch.made_other", other)
    new = OLD.replace("return a * b", "return a.rank()")
    texts = {"made.py": new, "made_other.py": "class Node:\n    def rank(self):\n        return 5\n"}
    exchange = Exchange(texts, function_index(), [("made_other.py", "Node.rank")])
    exchange.apply(differences("made.py", OLD, new))
    assert made.mul(other.Node()) == 5
    assert set(exchange.parsed) == {"made.py", "made_other.py"}


def test_modules_define_what_only_their_new_texts_define(made):
    exchange = Exchange({"made.py": OLD + "\n\ndef added():\n    return LIMIT\n"}, {})
    exchange.open_modules()
    assert not any(hasattr(each, "added") for each in [made])  # in code of its own, which does not write the name
    assert made.added() == 3
    with pytest.raises(AttributeError, match=r"module 'torch\.made' has no attribute 'nowhere'"):
        _ = made.nowhere


def test_a_call_that_does_not_fit_is_the_fault_of_what_is_called(made):
    edits = ("def mul(a, b=1):", "def mul(a, b, c):")
    made.exchange(edits)
    with pytest.raises(TypeError) as raised:
        made.mul(1, 2)
    (found,) = differences("made.py", OLD, OLD.replace(*edits))
    assert made.exchanged.culprit(raised.value, [found]) == found


def test_what_raises_within_an_inner_function_is_the_fault_of_the_outer_one(made):
    edits = ("return 1\n    return inner", "return 1 / 0\n    return inner")
    made.exchange(edits)
    with pytest.raises(ZeroDivisionError) as raised:
        made.outer()
    frame = raised.value.__traceback__
    while frame.tb_next:
        frame = frame.tb_next
    (found,) = differences("made.py", OLD, OLD.replace(*edits))
    assert made.exchanged.culprit(ZeroDivisionError().with_traceback(frame), [found]) == found


def test_classes_of_options_and_options_with_new_keywords(monkeypatch):
    module = types.ModuleType("torch.made_config")
    kinds = importlib.import_module("torch.utils._config_module")
    vars(module).update(_config={}, Config=kinds.Config)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    text = 'strict: str = Config(default="on", nobody_takes_this=1)\n\nclass eager:\n    exact: bool = True\n'
    Exchange({"made_config.py": text}, {}).add_options([module])
    assert {name: each.default for name, each in module._config.items()} == {"strict": "on", "eager.exact": True}
    assert type(module.eager) is kinds.SubConfigProxy
