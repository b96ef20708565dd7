"""Selectors: which of a case's targets, labels and torch versions a declaration is for.

A selector is "all", or words that must all be among: the target's name, its device, "gpu" (cuda or xpu), the case's
labels, and torch versions ("torch>=2.13", "torch<2.12").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from conformance.devices.environment import torch_build
from conformance.devices.targets import GPUS
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.devices.targets import Target


class DeclarationError(ConformanceError, ValueError):
    """A requirement that can never be met or never applies: an unknown selector, fact or partner."""


def values_for(declared: Mapping[str, Mapping[str, Any]], case: Case, target: Target) -> dict[str, Any]:
    """What `declared`, selector → fact → value, says of this case and target; later selectors override earlier ones."""
    wanted: dict[str, Any] = {}
    for selector, facts in declared.items():
        if _applies(selector, case, target):
            wanted |= facts
    return wanted


def exclusion(case: Case, target: Target) -> str:
    """Why a case is not for this target or torch version, by its `only`; "" where it is."""
    if not case.only or any(_applies(selector, case, target) for selector in case.only):
        return ""
    return "; ".join(f"{case.id} is for {selector} alone: {why}" for selector, why in case.only.items())


def _applies(selector: str, case: Case, target: Target) -> bool:
    words = {target.name, target.device, *case.labels} | ({"gpu"} if target.device in GPUS else set())
    return all(word == "all" or word in words or matches_installed_torch(word) for word in selector.split())


def matches_installed_torch(word: str) -> bool:
    """Whether a word such as "torch>=2.13" holds for the torch at hand; False for any other word."""
    return word.startswith("torch") and parse_torch_range("", word).contains(
        Version(torch_build().version).base_version
    )


def parse_torch_range(where: str, word: str) -> SpecifierSet:
    try:
        return SpecifierSet(word.removeprefix("torch"))
    except InvalidSpecifier as error:
        raise DeclarationError(
            f"{where}: {word!r} is no range of torch versions; right would be 'torch>=2.13' or 'torch>=2.11,<2.13'"
        ) from error
