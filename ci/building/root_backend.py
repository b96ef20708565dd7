"""The build backend of `conformance`: setuptools, which learns here whether it builds an editable installation.

An editable installation has the whole package, and requires what all parts require. A wheel has the suite's files, and
requires `conformance-generator`.
"""

from __future__ import annotations

import os
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
#: setup.py reads it.
EDITABLE = "BUILDS_EDITABLE_CONFORMANCE"


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    os.environ[EDITABLE] = "1"
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Any = None) -> str:
    os.environ[EDITABLE] = "1"
    return build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings)
