"""Selectors: for which targets, labels and torch versions a declaration is.

A selector is "all", or words that must all apply: a target's name, a device type, "rocm" (GPUs of AMD, to which "cuda"
applies too), "gpu" (cuda or xpu), a label of the case, or a range of torch versions. "cuda bf16 torch>=2.13" selects
the cases with the label bf16, on cuda targets, with torch 2.13 and newer. A vendor's device says which of these words
are for it too (devices/vendor_devices.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from conformance.cases.needed_package import package_problem
from conformance.devices.environment import torch_build
from conformance.devices.targets import selector_words
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case


class DeclarationError(ConformanceError, ValueError):
    """A wrong declaration by selectors, such as one that never applies: an unknown selector, fact or function."""


class SelectableTarget(Protocol):
    """What a selector needs to know of a target; a Target has it."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...


class TargetName(NamedTuple):
    """A target's name and device type, where the whole Target is not at hand."""

    name: str
    device: str


def values_for(declared: Mapping[str, Mapping[str, Any]], case: Case, target: SelectableTarget) -> dict[str, Any]:
    """Fact → value, from all selectors of `declared` that apply to this case and target. Later selectors override."""
    values: dict[str, Any] = {}
    for selector in applying(declared, case, target):
        values |= declared[selector]
    return values


def applying(selectors: Iterable[str], case: Case, target: SelectableTarget) -> list[str]:
    """The selectors that apply to this case and target, in the given order."""
    return [selector for selector in selectors if _applies(selector, case, target)]


def exclusion(case: Case, target: SelectableTarget) -> str:
    """Why a case is not for this target or torch, by its `only`, or what package it lacks, by `needs`; else ""."""
    if case.needs and (problem := package_problem(case.needs)):
        return problem
    if not case.only or any(_applies(selector, case, target) for selector in case.only):
        return ""
    return "; ".join(f"{case.id} is for {selector} only: {reason}" for selector, reason in case.only.items()) + (
        f" (`only` of test_{case.name})"
    )


def _applies(selector: str, case: Case, target: SelectableTarget) -> bool:
    words = selector_words(target.name, target.device) | set(case.labels)
    return all(word == "all" or word in words or matches_installed_torch(word) for word in selector.split())


def matches_installed_torch(word: str) -> bool:
    """Whether a word such as "torch>=2.13" is a range with the installed torch in it; False for any other word."""
    return word.startswith("torch") and parse_torch_range("", word).contains(
        Version(torch_build().version).base_version
    )


def parse_torch_range(where: str, word: str) -> SpecifierSet:
    """The range of "torch>=2.13". Raises DeclarationError, whose message begins with `where`."""
    try:
        return SpecifierSet(word.removeprefix("torch"))
    except InvalidSpecifier as error:
        raise DeclarationError(
            f"{where}: {word!r} is no range of torch versions; write 'torch>=2.13' or 'torch>=2.11,<2.13'"
        ) from error
