"""Records which accesses and operations of a vectorised C++ kernel run element by element.

Decision: inside a vectorised loop nest, Inductor writes a loop over the lanes (`tmpbuf` in the code) for an access that
is not contiguous and for an operation without vector code. Where: torch/_inductor/codegen/cpp.py: CppVecKernel
(_load_or_store_non_contiguous, store) and CppVecOverrides.
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
            "records loads, stores and indices that become a loop over the lanes",
        ),
        Patch(f"{cpp}:CppVecKernel.store", _store, "records stores that are atomic, lane by lane"),
        Patch(f"{cpp}:CppVecOverrides.__new__", _overrides, "records operations without vector code"),
    ]


def count(kernel: Any) -> int:
    """The number of operations and accesses of a CppVecKernel that run element by element, after its codegen."""
    return sum(len(texts) for texts in _scalar(kernel).values())


def reason(kernel: Any, operations: int) -> str:
    """Which run element by element, and why; "" if none does. `operations`: the number of all in the loop bodies."""
    records = _scalar(kernel)
    accesses = [(text, why) for (kind, why), texts in records.items() if kind == "access" for text in texts]
    parts = []
    if accesses:  # shows one of several, a load or a store if there is one
        text, why = min(accesses, key=lambda each: each[0].startswith("index_expr"))
        parts.append(f"{text} element by element ({why}), {len(accesses)} of {operations} operations")
    parts += [
        f"{', '.join(dict.fromkeys(texts))} element by element ({why})"
        for (kind, why), texts in records.items()
        if kind == "operation"
    ]
    return ", ".join(parts)


def _scalar(kernel: Any) -> dict[tuple[str, str], list[str]]:
    """(access or operation, why) → the texts of one kernel, in the order of the code."""
    return kernel.__dict__.setdefault(_SCALAR, {})


def _record(kernel: Any, kind: str, why: str, text: str) -> None:
    _scalar(kernel).setdefault((kind, why), []).append(text)


def _non_contiguous(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_or_store_non_contiguous(self: Any, var: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        value = kwargs.get("store_value", args[2] if len(args) > 2 else None)  # after dtype and buffer
        kind = "index_expr" if var is None else "load" if value is None else "store"
        stride = self._try_get_const_stride(index, self.itervars[self.tiling_idx])
        computed = "computed index" if _temporaries(index) else "no fixed stride"
        why = computed if stride is None else f"stride {stride}"
        _record(self, "access", why, f"{kind} index {_index_text(index)}")
        return original(self, var, index, *args, **kwargs)

    return load_or_store_non_contiguous


def _temporaries(index: Any) -> list[Any]:
    """The symbols of an index that stand for computed values."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    return sorted((each for each in index.free_symbols if symbol_is_type(each, SymT.TMP)), key=lambda each: each.name)


def _index_text(index: Any) -> str:
    """The index as text. Computed values are numbered from 0: their own numbers depend on the rest of the kernel."""
    from torch._inductor.utils import sympy_index_symbol

    inner = [each for each in index.free_symbols if each.name.endswith("_inner")]  # a place within a tile
    renamed = {each: sympy_index_symbol(f"indirect{number}") for number, each in enumerate(_temporaries(index))}
    return str(index.subs({**renamed, **dict.fromkeys(inner, 0)}))


def _store(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def store(self: Any, name: str, index: Any, value: Any, mode: Any = None) -> Any:
        before = count(self)
        result = original(self, name, index, value, mode)
        if mode == "atomic_add" and count(self) == before:
            _record(self, "operation", "atomic", "store")
        return result

    return store


def _overrides(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the operations of one kernel that CppVecOverrides takes from CppOverrides, in a loop over the lanes."""

    @functools.wraps(original)
    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        self = original(cls, *args, **kwargs)
        for name in _without_vectors():
            setattr(self, name, _recording(name, getattr(self, name)))
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


def _recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def operation(*args: Any, **kwargs: Any) -> Any:  # without functools.wraps: there are dozens for each kernel
        from torch._inductor.virtualized import V

        if any(getattr(arg, "is_vec", False) for arg in args):  # on scalars it runs once for all lanes
            _record(V.kernel, "operation", "no vector code", name)
        return method(*args, **kwargs)

    return operation
