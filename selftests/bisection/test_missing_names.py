"""Names that the binaries lack get placeholders."""

from __future__ import annotations

import types

import pytest

from conformance.bisection.missing_names import MissingNames, PlaceholderError

OLD = "class dtype:\n    hidden: int\nfloat32: dtype = ...\ndef old(x): ...\n"


@pytest.fixture
def made(tmp_path):
    """A module with placeholders, and what gives them."""
    for name, text in (("old", OLD), ("new", f"{OLD}bfloat8: dtype = ...\ndef added(x): ...\n")):
        file = tmp_path / name / "torch" / "_C" / "__init__.pyi"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    module = types.ModuleType("made")
    missing = MissingNames(tmp_path / "old", tmp_path / "new")
    missing.install(module)
    return module, missing


def test_a_placeholder_can_be_compared_and_nothing_else(made):
    module, missing = made
    assert missing.used == ()
    assert module.bfloat8 in {module.bfloat8, 1}
    assert module.bfloat8 not in ("made.bfloat8", module.added)
    assert repr(module.bfloat8) == "made.bfloat8"
    assert missing.used == ("made.bfloat8", "made.added")
    with pytest.raises(PlaceholderError, match=r"made\.added is a placeholder: the old torch lacks it, so it cannot"):
        module.added(1)
    with pytest.raises(PlaceholderError, match=r"so it has no itemsize"):
        _ = module.bfloat8.itemsize


def test_code_that_asks_whether_a_name_is_there_hears_no(made):
    module, missing = made
    assert not hasattr(module, "bfloat8")
    assert getattr(module, "bfloat8", None) is None
    assert missing.used == ()


@pytest.mark.parametrize("name", ["old", "hidden", "nowhere"])
def test_other_names_are_still_missing(made, name):
    module, _ = made
    with pytest.raises(AttributeError, match=f"module 'made' has no attribute '{name}'"):
        eval(f"module.{name}", {"module": module})  # noqa: S307 - the name is in the code


def test_the_modules_own_way_to_find_names_stays(made):
    module, missing = made
    module.__getattr__ = lambda name: f"its own {name}"
    missing.install(module)
    assert module.lazy == "its own lazy"
    assert repr(module.bfloat8) == "made.bfloat8"
