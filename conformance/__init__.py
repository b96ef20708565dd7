"""Conformance of torch.compile: is what TorchInductor generates right, and is it still the code we want?

What a test author imports: `case`, the input builders, what several cases say. Importing this imports neither torch
nor a compiler.
"""

from conformance.cases.case import Case, case
from conformance.cases.inputs import EDGE_SIZES, edges, image, tensor
from conformance.cases.numerics_policy import FLUSHED
from conformance.harness.explanations import story
from conformance.numerics.references import references

__all__ = ["EDGE_SIZES", "FLUSHED", "Case", "case", "edges", "image", "references", "story", "tensor"]
__version__ = "0.1.0"
