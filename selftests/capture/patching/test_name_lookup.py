"""Finding out from a package's sources whether it has a name."""

from __future__ import annotations

import subprocess
import sys

import pytest
from suites import environment

from conformance.capture.patching.name_lookup import is_missing

MODULE = """
from os.path import (
    join,
    split as parted,
)
import ast
try:
    from json import loads
except ImportError:
    loads = None
if ast:
    def chosen():
        inner = 1
LIMIT: int = 3
def plain(): ...
class Base:
    level = 1
    def method(self):
        def hidden(): ...
    if LIMIT:
        async def waited(self): ...
class Derived(Base):
    x = y = 2
class Foreign(ast.AST):
    pass
class Listed(list, metaclass=type):
    pass
"""

THERE = (
    *("join", "parted", "ast", "loads", "chosen", "LIMIT", "plain", "Base", "ast.parse"),
    *("Base.method", "Base.level", "Base.waited", "Base.__init__", "Derived.method", "Derived.level", "Derived.y"),
    *("Foreign.anything", "Listed.anything"),
)
GONE = (
    "split_",
    "nothing",
    "hidden",
    "inner",
    "method",
    "level",
    "Base.hidden",
    "Base.y",
    "Derived.z",
    "Nobody.method",
)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "made"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("from elsewhere import *\n")
    (folder / "inner/__init__.py").write_text("def __getattr__(name): ...\n")
    (folder / "module.py").write_text(MODULE)
    (folder / "starred.py").write_text("from .module import *\nfrom made.starred import *\n")
    (folder / "_C.cpython-311.so").write_bytes(b"")
    return folder


@pytest.mark.parametrize("name", THERE)
def test_there(package, name):
    assert not is_missing(f"made.module:{name}", package)


@pytest.mark.parametrize("name", GONE)
def test_gone(package, name):
    assert is_missing(f"made.module:{name}", package)


def test_what_sources_cannot_tell(package):
    for where in ("made:anything", "made.inner:anything", "made._C:anything", "other.module:anything"):
        assert not is_missing(where, package)
    assert is_missing("made.no_such_module:anything", package)


def test_what_is_imported_with_a_star(package):
    assert not is_missing("made.starred:plain", package)
    assert not is_missing("made.starred:Derived.level", package)
    assert is_missing("made.starred:nothing", package)


def test_this_torch_fits_without_importing_it():
    script = """
import sys, time
from conformance.capture import isolation
from conformance.devices.targets import targets
begun = time.process_time()
found = isolation.patch_problems(targets().values(), (), isolation.missing_in_sources())
print(found, "torch" in sys.modules, time.process_time() - begun < 1)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment({}), capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout.split() == ["{}", "False", "True"]
