"""What goes element by element within a vectorised C++ kernel, as CppVecKernel generated it.

Inductor vectorises a loop nest or not; within one that is, an access that vectors cannot follow and an operation that
has no vector code become a loop over the lanes (`tmpbuf` in the code). The places that write those loops are watched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

_SCALAR = "_conformance_scalar"


def patches() -> list[Patch]:
    cpp = "torch._inductor.codegen.cpp"
    return [
        Patch(
            f"{cpp}:CppVecKernel._load_or_store_non_contiguous",
            _non_contiguous,
            "loads, stores and indices that become a loop over the lanes",
        ),
        Patch(f"{cpp}:CppVecKernel.store", _store, "stores that are atomic, lane by lane"),
        Patch(f"{cpp}:CppVecOverrides.__new__", _overrides, "operations that have no vector code"),
    ]


def count(kernel: Any) -> int:
    """How many operations and accesses of a CppVecKernel go element by element, after its codegen."""
    return sum(len(texts) for texts in _scalar(kernel).values())


def reason(kernel: Any, operations: int) -> str:
    """Which those are, and why; "" where there are none. `operations`: how many the loop bodies have."""
    found = _scalar(kernel)
    accesses = [(text, why) for (kind, why), texts in found.items() if kind == "access" for text in texts]
    parts = []
    if accesses:  # of several one is shown, a load or a store where there is one
        text, why = min(accesses, key=lambda each: each[0].startswith("index_expr"))
        parts.append(f"{text} element by element ({why}), {len(accesses)} of {operations} operations")
    parts += [
        f"{', '.join(dict.fromkeys(texts))} element by element ({why})"
        for (kind, why), texts in found.items()
        if kind == "operation"
    ]
    return ", ".join(parts)


def _scalar(kernel: Any) -> dict[tuple[str, str], list[str]]:
    """(access or operation, why) → what, in the order of the code; of one kernel."""
    return kernel.__dict__.setdefault(_SCALAR, {})


def _note(kernel: Any, kind: str, how: str, text: str) -> None:
    _scalar(kernel).setdefault((kind, how), []).append(text)


def _non_contiguous(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_or_store_non_contiguous(self: Any, var: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        value = kwargs.get("store_value", args[2] if len(args) > 2 else None)  # after dtype and buffer
        kind = "index_expr" if var is None else "load" if value is None else "store"
        stride = self._try_get_const_stride(index, self.itervars[self.tiling_idx])
        how = f"stride {stride}" if stride is not None else "computed index" if _computed(index) else "no fixed stride"
        _note(self, "access", how, f"{kind} index {_named(index)}")
        return original(self, var, index, *args, **kwargs)

    return load_or_store_non_contiguous


def _temporaries(index: Any) -> list[Any]:
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    return sorted((each for each in index.free_symbols if symbol_is_type(each, SymT.TMP)), key=lambda each: each.name)


def _computed(index: Any) -> bool:
    return bool(_temporaries(index))


def _named(index: Any) -> str:
    """The index without the numbers of temporaries, which are those of one kernel's text."""
    from torch._inductor.utils import sympy_index_symbol

    inner = [each for each in index.free_symbols if each.name.endswith("_inner")]  # a place within a tile
    found = {each: sympy_index_symbol(f"indirect{number}") for number, each in enumerate(_temporaries(index))}
    return str(index.subs({**found, **dict.fromkeys(inner, 0)}))


def _store(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def store(self: Any, name: str, index: Any, value: Any, mode: Any = None) -> Any:
        before = count(self)
        result = original(self, name, index, value, mode)
        if mode == "atomic_add" and count(self) == before:
            _note(self, "operation", "atomic", "store")
        return result

    return store


def _overrides(original: Callable[..., Any]) -> Callable[..., Any]:
    """Watches those operations of one kernel that CppVecOverrides takes from CppOverrides, in a loop over the lanes."""

    @functools.wraps(original)
    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        self = original(cls, *args, **kwargs)
        for name in _without_vectors():
            setattr(self, name, _watched(name, getattr(self, name)))
        return self

    return new


#: Operations of CppVecOverrides that write a loop over the lanes themselves.
_LOOPS = ("frexp", "rand", "randn", "randint64")


@functools.cache
def _without_vectors() -> tuple[str, ...]:
    from torch._inductor.codegen import cpp

    methods = vars(cpp.CppVecOverrides)
    return tuple(
        name
        for name, method in methods.items()
        if name in _LOOPS or "_scalarize" in getattr(method, "__qualname__", "")
    )


def _watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def operation(*args: Any, **kwargs: Any) -> Any:  # dozens of them for each kernel: without functools.wraps
        from torch._inductor.virtualized import V

        if any(getattr(arg, "is_vec", False) for arg in args):  # of scalars alone it is done once for all lanes
            _note(V.kernel, "operation", "no vector code", name)
        return method(*args, **kwargs)

    return operation
