"""What captures take from torch by name: each name exists, each bound is needed, and each class is in the table."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from conformance.capture import isolation, unread
from conformance.capture.observers import kernels, recognised
from conformance.capture.toolchain import cpu_isa, other_backends
from conformance.capture.wrappers.recorder import PRE_FUSION
from conformance.devices.targets import targets
from conformance.devices.torch_releases import NEWEST, OLDEST, release_number

CAPTURE = Path(recognised.__file__).parents[1]
#: Names of modules that import packages which need not be installed.
NOT_HERE = ("triton.", "torch._inductor.codegen.pallas", "torch._inductor.codegen.halide")


def every_patch():
    found = [*kernels.patches(), *cpu_isa.CODEGEN_PATCHES, *unread.patches(explore=False), PRE_FUSION]
    for target in targets().values():
        for mode in ("deviceless", "native"):
            found += isolation.patches(target, mode)
    return {patch.where: patch for patch in found if patch not in other_backends.PATCHES}


@pytest.fixture(scope="module")
def patches():
    return every_patch()


def test_each_name_exists_in_this_torch(patches):
    """Also those of patches that do without: otherwise a name that is gone would never be noticed."""
    here = [patch for where, patch in patches.items() if patch.applies() and not where.startswith(NOT_HERE)]
    assert [patch.where for patch in here if patch.is_missing()] == []


def test_each_bound_is_needed(patches):
    """A patch that no supported torch needs goes, and so does a bound that all of them meet."""
    since = {patch.since for patch in patches.values()} | {each.since for each in recognised.CLASSES.values()}
    assert all(OLDEST.number < release_number(each) <= NEWEST.number for each in since - {""})
    until = {patch.until for patch in patches.values()} - {""}
    assert all(OLDEST.number <= release_number(each) < NEWEST.number for each in until)


def test_each_class_that_is_recognised_is_in_the_table(patches):
    inductor = Path(importlib.util.find_spec("torch").origin).parent / "_inductor"
    sources = [file.read_text(encoding="utf-8") for file in inductor.rglob("*.py")]
    classes = {name for text in sources for name in re.findall(r"^class ([A-Z]\w+)", text, re.MULTILINE)}
    patched = {name for where in patches for name in re.findall(r"\w+", where)}
    unknown = set()
    for file in [*(CAPTURE / "observers").glob("*.py"), *(CAPTURE / "wrappers").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in classes - set(recognised.CLASSES) - patched:
                unknown.add(f"{file.relative_to(CAPTURE)}:{node.lineno}: {node.value}")
    assert unknown == set()
