"""The folders of this package's own cases, and of what is stored for them."""

from __future__ import annotations

from pathlib import Path

#: The cases of operators. The distribution `conformance-suite` has this folder and the next: see `lookup.suite_folder`.
OPS = Path(__file__).parent.parent / "ops"
#: The cases of models.
MODELS = OPS.with_name("models")
#: The sweep, whose cases are made of PyTorch's op_db. Finding them imports torch.
SWEEP = OPS.with_name("sweep")
CASE_ROOTS = (OPS, MODELS, SWEEP)
#: What is stored for the cases of each.
STORAGE_ROOTS = (OPS.parent, MODELS, SWEEP)


def is_own_case_file(file: Path) -> bool:
    """Whether a file or folder is one of CASE_ROOTS, or below one of them."""
    return any(file.resolve().is_relative_to(root.resolve()) for root in CASE_ROOTS)
