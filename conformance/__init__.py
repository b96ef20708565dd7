"""Conformance of torch.compile: is what TorchInductor generates right, and is it still the code we want?

Everything that a file of cases needs is imported from here: docs/public-names.md lists it. Importing this package
imports neither torch nor a compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError
    from conformance.capture.toolchain.cpp_extension import load_cpp_extension
    from conformance.cases.case import Case, case
    from conformance.cases.inputs import EDGE_SIZES, edges, every_value, image, tensor
    from conformance.cases.nested.groups import group
    from conformance.cases.nested.modules import module
    from conformance.cases.optional_module import optional_module
    from conformance.cases.tolerance_policy import FLUSHED
    from conformance.devices.vendor_devices import VendorDevice
    from conformance.generated.generation import Generated, generate
    from conformance.harness.contracts import contract
    from conformance.harness.explanations import explanation
    from conformance.numerics.check import assert_agrees_with_eager
    from conformance.numerics.references import references
    from conformance.numerics.torch_references import REDUCTIONS, decomposition, python_reference

__all__ = [
    "EDGE_SIZES",
    "FLUSHED",
    "REDUCTIONS",
    "Case",
    "EmulationError",
    "Generated",
    "NotEmulatedError",
    "VendorDevice",
    "assert_agrees_with_eager",
    "case",
    "contract",
    "decomposition",
    "edges",
    "every_value",
    "explanation",
    "generate",
    "group",
    "image",
    "load_cpp_extension",
    "module",
    "optional_module",
    "python_reference",
    "references",
    "tensor",
]
__version__ = "0.2.0"

#: Public names and their modules, imported when a name is first used: pytest imports this package into every run.
_MODULES = {
    "Case": "cases.case",
    "EDGE_SIZES": "cases.inputs",
    "EmulationError": "capture.emulation.errors",
    "Generated": "generated.generation",
    "generate": "generated.generation",
    "FLUSHED": "cases.tolerance_policy",
    "REDUCTIONS": "numerics.torch_references",
    "NotEmulatedError": "capture.emulation.errors",
    "VendorDevice": "devices.vendor_devices",
    "assert_agrees_with_eager": "numerics.check",
    "case": "cases.case",
    "contract": "harness.contracts",
    "decomposition": "numerics.torch_references",
    "edges": "cases.inputs",
    "every_value": "cases.inputs",
    "explanation": "harness.explanations",
    "group": "cases.nested.groups",
    "image": "cases.inputs",
    "load_cpp_extension": "capture.toolchain.cpp_extension",
    "module": "cases.nested.modules",
    "optional_module": "cases.optional_module",
    "python_reference": "numerics.torch_references",
    "references": "numerics.references",
    "tensor": "cases.inputs",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from conformance.distributions import SUITE, module_of

    value = globals()[name] = getattr(module_of(SUITE, _MODULES[name], f"conformance.{name}"), name)
    return value
