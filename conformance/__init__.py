"""Conformance of torch.compile: is what TorchInductor generates right, and is it still the code we want?

Everything that a file of cases needs is imported from here: docs/public-names.md lists it. Importing this package
imports neither torch nor a compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from conformance.cases.case import Case, case
from conformance.cases.inputs import EDGE_SIZES, edges, every_value, image, tensor
from conformance.cases.numerics_policy import FLUSHED
from conformance.harness.explanations import explanation
from conformance.numerics.references import references

if TYPE_CHECKING:
    from conformance.capture.toolchain.cpp_extension import load_cpp_extension
    from conformance.numerics.check import assert_agrees_with_eager
    from conformance.numerics.torch_references import REDUCTIONS, decomposition, python_reference

__all__ = [
    "EDGE_SIZES",
    "FLUSHED",
    "REDUCTIONS",
    "Case",
    "assert_agrees_with_eager",
    "case",
    "decomposition",
    "edges",
    "every_value",
    "explanation",
    "image",
    "load_cpp_extension",
    "python_reference",
    "references",
    "tensor",
]
__version__ = "0.1.0"

#: Public names whose modules import torch, or need more than a list of cases needs: imported when they are first used.
_LATE = {
    "REDUCTIONS": ("conformance.numerics.torch_references", "REDUCTIONS"),
    "assert_agrees_with_eager": ("conformance.numerics.check", "assert_agrees_with_eager"),
    "decomposition": ("conformance.numerics.torch_references", "decomposition"),
    "load_cpp_extension": ("conformance.capture.toolchain.cpp_extension", "load_cpp_extension"),
    "python_reference": ("conformance.numerics.torch_references", "python_reference"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LATE[name]
    return getattr(importlib.import_module(module), attribute)
