"""The kernels of a capture, for `show --kernels`: in short with the cases that store the same ones, or one's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.capture.model import Capture
from conformance.cli.capture_sections import Block
from conformance.devices.targets import Target
from conformance.errors import ConformanceError
from conformance.normalize.wrapper_modules import kernel_texts
from conformance.storage.locations import snapshot_stores
from conformance.storage.stored_kernels import StoredKernels, kernel_digest

#: The cases that a line names; it counts the others.
_NAMED = 2


class NoKernelError(ConformanceError, ValueError):
    """A word that is in no kernel's name. The message has the names."""


def kernel_sections(word: str, capture: Capture, target: Target) -> Iterator[Block]:
    """Each kernel whose name has the word, as text; without a word all kernels in short.

    Raises NoKernelError.
    """
    kernels = [each for module in capture.modules for each in kernel_texts(module.code, target.device)]
    if not word:
        yield Block("kernels", "\n".join(_lines(kernels, capture, target)) or "none", "facts")
        return
    chosen = [(name, text) for name, text in kernels if word in name]
    if not chosen:
        names = ", ".join(name for name, _ in kernels) or "none"
        raise NoKernelError(f"{capture.case} for {target.name}: no kernel has {word!r} in its name; there are: {names}")
    for name, text in chosen:
        yield Block(name, text.partition("\n")[2].rstrip("\n"), "code")


def _lines(kernels: Sequence[tuple[str, str]], capture: Capture, target: Target) -> Iterator[str]:
    """Name and digest of each kernel, and the cases of operators that have the same one."""
    from conformance.cases.roots import OPS

    stores = snapshot_stores([OPS] if OPS.is_dir() else [])  # the harness may be installed alone
    stored = StoredKernels(stores, capture.torch, target.name)
    for name, text in kernels:
        similar = stored.similar(text)
        yield f"{name}  {kernel_digest(text)}"
        if similar.same:
            yield f"  the same in {_named(similar.same)}"
        elif similar.but_for_sizes:
            yield f"  the same but for sizes in {_named(similar.but_for_sizes)}"
        else:
            yield "  in no case of operators"


def _named(cases: Sequence[str]) -> str:
    more = len(cases) - _NAMED
    return ", ".join(cases[:_NAMED]) + (f" and {more} more" if more > 0 else "")
