"""The distributions beside this one: parts that may not be installed, and how a message names them."""

from __future__ import annotations

import importlib
from types import ModuleType

from conformance.errors import ConformanceError

#: Cases, runs and the plugin; what answers questions by search; what a person reads in a browser.
SUITE, LAB, PAGE = "conformance", "conformance-lab", "conformance-page"


class MissingDistributionError(ConformanceError, ImportError):
    """A part that is not installed. The message names its distribution."""


def module_of(distribution: str, module: str, needed_by: str) -> ModuleType:
    """A module below `conformance` that another distribution has. `needed_by`: such as "minimise" or "--blame".

    Raises MissingDistributionError.
    """
    try:
        return importlib.import_module(f"conformance.{module}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("conformance."):
            raise
        raise MissingDistributionError(f"{needed_by} is in {distribution}: pip install {distribution}") from error
