"""Captures that several targets of a device type share.

The first target's item is captured. Another target's capture is the same if its device gives the same answers to all
that torch asked (deviceless/device_queries.py), and if its numerics have the same policy. Then only the properties of
the device differ, which Inductor writes into each Triton kernel. So code that is made for one target alone has the same
text.

A CPU target shares the capture of the row that its `code_like` names, if Inductor did not ask for the instruction set
of a product from a template. Natively it shares the numerics too: they passed with the same code.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from conformance.capture.deviceless.device_queries import DeviceQueries, kernel_properties
from conformance.capture.model import Capture, Module
from conformance.cases.case import Case
from conformance.cases.tolerance_policy import Policy
from conformance.devices.targets import GPUS, Target, multiprocessor_count

#: So many captures are kept. The targets of a case follow each other, so the last few would do.
_KEPT = 32
#: Instruction set → the one that Inductor vectorises for in the same way.
_SAME_VECTORS = {"amx": "avx512"}


@dataclass(frozen=True)
class SharedCapture:
    """A capture of `target`, without deferred texts.

    `numerics`: None where they did not run and pass; else what the harness keeps of them.
    """

    target: Target
    capture: Capture
    queries: DeviceQueries
    numerics: Any = None

    def for_target(self, target: Target) -> Capture:
        """The capture as it is for another target that shares it."""
        if target.device not in GPUS:
            return dataclasses.replace(self.capture, target=target.name, seconds=0.0)
        written = (repr(kernel_properties(self.target)), repr(kernel_properties(target)))
        modules = [
            Module(
                module.kind,
                module.code.replace(*written),
                observed=_observed(module.observed, written, multiprocessor_count(target.properties)),
            )
            for module in self.capture.modules
        ]
        return dataclasses.replace(self.capture, target=target.name, modules=modules, seconds=0.0)


class SharedCaptures:
    """The last captures of this process that other targets can share."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], list[SharedCapture]] = OrderedDict()

    def add(
        self, case: Case, target: Target, capture: Capture, queries: DeviceQueries | None, numerics: Any = None
    ) -> None:
        """Keeps the finished capture of an item, if other targets can share it.

        `queries`: after the numerics ran, because they ask too. `numerics`: see SharedCapture.
        """
        # A case's own code may depend on more than on what it asks the device.
        if queries is None or case.prepare is not None or capture.error or not capture.modules:
            return
        key = _key(case, target)
        others = [shared for shared in self._kept.get(key, ()) if shared.target != target]
        # New modules: a deferred text keeps Inductor's whole graph in memory.
        kept = dataclasses.replace(capture, modules=[dataclasses.replace(module) for module in capture.modules])
        self._kept[key] = [*others, SharedCapture(target, kept, queries, numerics)]
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def find(self, case: Case, target: Target) -> SharedCapture | None:
        """The capture of another target that is the same for this one; None if there is none."""
        for shared in self._kept.get(_key(case, target), ()):
            if shared.target == target or not _may_share(shared.target, target):
                continue
            if _policy(case, shared.target) == _policy(case, target) and shared.queries.have_the_same_answers(target):
                return shared
        return None


def _key(case: Case, target: Target) -> tuple[str, str, str]:
    return str(case.file), case.id, target.family


def _may_share(first: Target, other: Target) -> bool:
    """Whether all that tells two targets apart is asked for."""
    if other.device in GPUS:
        return True
    same = first.threads == other.threads and first.isa in (other.isa, _SAME_VECTORS.get(other.isa))
    return same and other.code_like == first.name


def _policy(case: Case, target: Target) -> Policy:
    return Policy.for_case(case, target.name, target.device)


def _observed(value: Any, written: tuple[str, str], multiprocessors: int) -> Any:
    """What observers recorded, as for another target."""
    if isinstance(value, str):
        return value.replace(*written)
    if isinstance(value, dict):
        # A reduction's record has the number of multiprocessors, for explanations.
        return {
            key: multiprocessors if key == "multiprocessors" else _observed(item, written, multiprocessors)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_observed(item, written, multiprocessors) for item in value)
    return value
