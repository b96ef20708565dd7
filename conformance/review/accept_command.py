"""What the message of changed code advises: the command that accepts one item, and how to see code of two sides."""

from __future__ import annotations

import os
import shlex

from conformance.cases.case import Case
from conformance.devices.targets import Target
from conformance.documentation import reference
from conformance.settings import Overlay, option_name
from conformance.storage.digests import is_digest
from conformance.storage.installed import installed_package

#: Begins the line of a message that says how to accept what changed.
ACCEPT_WITH = "accept it with: "


def accept_command(case: Case, target: Target, overlay: Overlay) -> str:
    """The command that stores this item's text as its new snapshot."""
    labels = "-".join((*case.labels, target.name))
    file = os.path.relpath(case.file)
    options = overlay.options()
    if not overlay.store and installed_package(case.file):
        options += [option_name("store"), "DIR"]  # see storage/installed.py
    return " ".join([f"EXPECTTEST_ACCEPT=1 pytest '{file}::test_{case.name}[{labels}]'", *map(shlex.quote, options)])


def advice_on_digest(stored: str) -> str:
    """How to see what changed in the code, where only a digest is stored; "" elsewhere."""
    if not is_digest(stored):
        return ""
    before, after = f"pytest {option_name('save-run')} before …", f"pytest {option_name('baseline')} before …"
    return (
        f"\nonly a digest of the code is stored; to see the change, generate both sides: {before}, then {after}: "
        f"{reference('sweep', 'a-change')}"
    )
