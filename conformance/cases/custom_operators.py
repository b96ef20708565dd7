"""Errors of operators and Triton kernels that an author wrote: what is missing, and what to declare or register."""

from __future__ import annotations

import re

#: Pattern of an error's text → the sentence; {0}, {1} are the pattern's groups.
_SENTENCES = {
    r"0 active drivers": (
        "Triton has no backend for the CPU: declare only={{'gpu': 'Triton has no backend for the CPU'}} in @case"
    ),
    r"([\w:.]+): attempted to run this operator with Meta tensors": (
        "the operator {0} has no fake kernel, which says shapes and dtypes while tracing: register one with "
        "torch.library.register_fake, or in C++ with TORCH_LIBRARY_IMPL(…, Meta, …)"
    ),
    r"Could not run '([\w:.]+)' with arguments from the '(\w+)' backend": (
        "the operator {0} has no kernel for {1}: register one, or declare in @case where it has one, such as "
        "only={{'cpu': 'the operator has a kernel there alone'}}"
    ),
}


def advice(error: BaseException) -> str:
    """One sentence that says what is missing and what to do; "" for another error."""
    text = str(error)
    for pattern, sentence in _SENTENCES.items():
        if found := re.search(pattern, text):
            return sentence.format(*found.groups())
    return ""
