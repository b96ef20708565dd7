"""The command that accepts one item, for messages."""

from __future__ import annotations

import os
import shlex

from conformance.cases.case import Case
from conformance.devices.targets import Target
from conformance.settings import Overlay, option_name
from conformance.storage.installed import installed_package


def accept_command(case: Case, target: Target, overlay: Overlay) -> str:
    """The command that stores this item's text as its new snapshot."""
    labels = "-".join((*case.labels, target.name))
    file = os.path.relpath(case.file)
    options = overlay.options()
    if not overlay.store and installed_package(case.file):
        options += [option_name("store"), "DIR"]  # see storage/installed.py
    return " ".join([f"EXPECTTEST_ACCEPT=1 pytest '{file}::test_{case.name}[{labels}]'", *map(shlex.quote, options)])
