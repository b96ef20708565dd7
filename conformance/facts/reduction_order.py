"""The order in which each kernel adds up, as text: two captures with the same text are the same by structure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from conformance.facts.exact_operators import EXACT, EXACT_ON_CPU
from conformance.facts.kernels import label
from conformance.facts.model import ObservedCapture

if TYPE_CHECKING:
    from conformance.capture.model import Capture

#: Kinds of Triton kernels whose threads combine elements. Others compute each element alone.
_COMBINES = re.compile(r"reduction|scan|sort|template|user-defined|foreach|combo")
#: In the text of a Triton kernel: what gives other bits in another order. The largest and any() do not.
_ROUNDS = re.compile(r"\btl\.(?:sum|reduce|associative_scan|dot)\(|welford|triton_helpers\.(?:prod|sort|online)")
_FLOATING = re.compile(r"'\*(?:fp|bf)\d+'")
#: Calls whose kernels for a GPU add atomically: torch.use_deterministic_algorithms names them, and bits on an H200 do.
_ADD_ATOMICALLY = re.compile(
    r"_?(?:scaled_dot_product_)?(?:efficient|flash)_attention_backward|index_add|put|scatter_(?:add|reduce)|"
    r"_?(?:adaptive_)?avg_pool[23]d_backward|(?:adaptive_|fractional_)?max_pool[23]d(?:_with_indices)?_backward|"
    r"upsample_\w*(?:linear|cubic)\w*_backward|(?:reflection|replication)_pad[123]d_backward|"
    r"grid_sampler_[23]d_backward|_ctc_loss_backward|_embedding_bag\w*_backward|bincount"
)
#: In C++: a conversion to whole numbers. Lanes and scalars have other results outside of the range.
_TO_WHOLE = re.compile(r"\bconvert<u?int")


@dataclass(frozen=True)
class ReductionOrder:
    """The order of a capture. `texts`: name of a Triton kernel → its text. `launches`: → how Inductor may launch it."""

    capture: Capture
    texts: Mapping[str, str]
    launches: Mapping[str, Sequence[str]]

    @cached_property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        return ObservedCapture.of(self.capture).calls

    @cached_property
    def lines(self) -> list[str]:
        """A line for each kernel and library call: operators, kind, reduced sizes, threads, lanes, launches.

        Sizes that are not reduced are left out, and all sizes of kernels whose bits do not depend on the order.
        """
        return [f"{label(call, number)}: {'; '.join(self._parts(call))}" for number, call in enumerate(self.calls, 1)]

    @cached_property
    def unstable(self) -> str:
        """What may give other bits in the next run or process; "" for nothing. Names the first kernel of each kind."""
        found: dict[str, list[str]] = {}
        if self._threads_may_change:
            found["threads"] = ["each thread has a sum of its own, and the number of threads is that of the moment"]
        for number, call in enumerate(ObservedCapture.of(self.capture).kernels, 1):
            kernel, chosen = f"kernel {label(call, number)}", self.launches.get(call.get("function", ""), ())
            if _has_atomics(call) and self.has_floats(call):
                found.setdefault("atomic", []).append(f"{kernel} adds atomically")
            if not is_ordered(call, self.texts):
                continue
            if "split scan" in call["kind"]:
                found.setdefault("scan", []).append(f"{kernel} adds up what other blocks have at that moment")
            if call["kind"] == "template" and "flex" not in call.get("function", ""):
                found.setdefault("template", []).append(f"{kernel} was faster than a library and other templates")
            elif "'coordinate_descent_tuning': True" in self.texts.get(call.get("function", ""), ""):
                found.setdefault("launch", []).append(f"{kernel} tunes its launch by time")
            elif len(chosen) > 1:
                texts = " or ".join(chosen)
                found.setdefault("launch", []).append(f"{kernel} takes the fastest of {len(chosen)} launches: {texts}")
        for number, each in enumerate(self.calls if self._is_on_gpu else (), 1):
            if _ADD_ATOMICALLY.fullmatch(_operator(each).rstrip("_")):
                found.setdefault("atomic", []).append(f"call {label(each, number)} adds atomically")
        return "; ".join(f"{first}{f', and {len(rest)} more do' if rest else ''}" for first, *rest in found.values())

    @property
    def _is_on_gpu(self) -> bool:
        return any(
            device not in ("cpu", "meta") for module in self.capture.modules for device in module.observed["devices"]
        )

    @cached_property
    def scalar_tail(self) -> str:
        """The first kernel whose last elements scalar functions compute, as a reason; "" without one."""
        line = next((each for each in self.lines if "tail scalar" in each), "")
        return f"kernel {line.partition(': ')[0]}: the tail is scalar, and other elements are in it" if line else ""

    @cached_property
    def _threads_may_change(self) -> bool:
        """Whether C++ shares a sum among as many threads as there are when it runs."""
        nests = [nest for call in self.calls for nest in call.get("nests") or ()]
        shares = any(nest.get("parallel") == "reduction" for nest in nests)
        return shares and not any("num_threads(" in module.code for module in self.capture.modules)

    @cached_property
    def library(self) -> str:
        """The functions of libraries and the fallbacks that the code calls, as a reason; "" without any.

        Those that compute each element by itself are no reason.
        """
        names = dict.fromkeys(call.get("name", "") or call["call"] for call in self.calls if not _is_exact(call))
        return f"a library chooses its own kernel: {', '.join(names)}" if names else ""

    @cached_property
    def is_free(self) -> bool:
        """Whether the code is kernels and fallbacks alone whose bits depend on no order, and on no lanes."""
        return all(_is_exact(call) and (self._is_free_triton(call) or self.is_exact_cpp(call)) for call in self.calls)

    def _is_free_triton(self, call: Mapping[str, Any]) -> bool:
        return (
            call.get("language", "triton") == "triton"
            and not (call["call"] == "kernel" and is_ordered(call, self.texts))
            and not (_has_atomics(call) and self.has_floats(call))
        )

    def is_exact_cpp(self, call: Mapping[str, Any]) -> bool:
        """Whether a kernel of C++ computes exactly, or rounds correctly: lanes and scalars have the same bits then."""
        if not call.get("nests") or self.adds_up(call) or self._converts:
            return False
        names = {name.removeprefix("prims.") for name in call["decomposed"]}
        operations = (call.get("cost") or {}).get("operations", {})
        is_whole = bool(operations) and not any(name[0] in "bfc" for name in operations)
        return is_whole or names <= EXACT | EXACT_ON_CPU | {"convert_element_type"}

    @cached_property
    def _converts(self) -> bool:
        return any(_TO_WHOLE.search(module.code) for module in self.capture.modules)

    def cannot_matter(self, option: str) -> bool:
        """Whether the code has nothing that this option of Inductor would change. False if that is not known."""
        kernels = ObservedCapture.of(self.capture).kernels
        ordered = [call for call in kernels if call.get("language") != "triton" or is_ordered(call, self.texts)]
        nests = [nest for call in kernels for nest in call.get("nests") or ()]
        if option == "triton.persistent_reductions":
            return not any("persistent" in call["kind"] for call in ordered)
        if option == "split_reductions":
            return not any(call.get("split") for call in ordered)
        if option == "cpp.threads":
            return all(call.get("nests") for call in kernels) and not any(
                nest.get("parallel") == "reduction" for nest in nests
            )
        if option == "cpp.enable_loop_tail_vec":
            return all(call.get("nests") for call in kernels) and not any(
                nest.get("tail") == "masked" for nest in nests
            )
        return all(call["fused"] <= 1 for call in kernels)

    def adds_up(self, call: Mapping[str, Any]) -> bool:
        """Whether the kernel adds up numbers whose sum depends on the order."""
        if call.get("language") == "triton":
            return is_ordered(call, self.texts) or (_has_atomics(call) and self.has_floats(call))
        is_float = any(name[0] in "bfc" for name in (call.get("cost") or {}).get("operations", {}))
        free = {"amax", "amin", "max", "min", "any", "all", "argmax", "argmin"}
        nests = call.get("nests") or [call]
        return is_float and any(nest.get("reduced") and not free.issuperset(nest["decomposed"]) for nest in nests)

    def has_floats(self, call: Mapping[str, Any]) -> bool:
        """Whether a Triton kernel reads or writes floating numbers. True if its text is not known."""
        text = self.texts.get(call.get("function", ""), "")
        return not text or bool(_FLOATING.search(text))

    def _parts(self, call: Mapping[str, Any]) -> Iterator[str]:
        if call["call"] != "kernel":
            yield f"{call['call']} {call.get('name', '')}".strip()
            return
        yield ", ".join(sorted(call["ops"]))
        if _has_atomics(call) and self.has_floats(call):
            yield "atomic additions"
        nests = call.get("nests") or ()
        if not nests and call.get("language") == "triton" and not is_ordered(call, self.texts):
            return
        if not nests:
            yield _loops(call)
        exact = self.is_exact_cpp(call)
        yield from ("exact" if exact else _nest(nest) for nest in nests)
        if call.get("split"):
            yield f"{call['split']} half of a split"
        yield from filter(None, [" or ".join(self.launches.get(call.get("function", ""), ()))])


def is_ordered(call: Mapping[str, Any], texts: Mapping[str, str]) -> bool:
    """Whether the bits of a Triton kernel depend on the order in which it combines elements, and so on the launch."""
    if not _COMBINES.search(call["kind"]):
        return False
    text = texts.get(call.get("function", ""), "")
    return not text or bool(_ROUNDS.search(text) and _FLOATING.search(text))


def ordered_kernels(capture: Capture, texts: Mapping[str, str]) -> set[str]:
    """The names of the Triton kernels whose launches a ReductionOrder reads."""
    calls = ObservedCapture.of(capture).kernels
    return {call.get("function", "") for call in calls if is_ordered(call, texts)}


def _is_exact(call: Mapping[str, Any]) -> bool:
    """Whether a call is a kernel, or a fallback whose bits depend on no order."""
    return call["call"] == "kernel" or _operator(call) in EXACT


def _operator(call: Mapping[str, Any]) -> str:
    """`index_add` for a call of aten.index_add.default."""
    name: str = call.get("name", "")
    return name.removeprefix("aten.").partition(".")[0]


def _has_atomics(call: Mapping[str, Any]) -> bool:
    return bool((call.get("work") or {}).get("atomics"))


def _nest(nest: Mapping[str, Any]) -> str:
    """A loop nest of C++. Vectorised functions have other bits than scalar ones; a masked tail has the vectorised."""
    is_vectorised = nest["vectorised"] == "yes"
    if not nest["reduced"]:
        return (
            "pointwise, vectorised" + (", tail scalar" * (nest["tail"] == "scalar")) if is_vectorised else "pointwise"
        )
    parts = [_loops(nest), {"reduction": "threads share a sum"}.get(nest["parallel"], "one thread for a sum")]
    if is_vectorised:
        along = any(int(loop[1:]) >= len(nest["ranges"]) for loop in nest["loops"])
        parts.append(f"{nest['width']} lanes {'along the sum' if along else 'of sums'}")
        parts += [f"tail {nest['tail']}"] if nest["tail"] != "none" else []
    return ", ".join(parts)


def _loops(loops: Mapping[str, Any]) -> str:
    return f"{loops['kind']} {''.join(f'[{size}]' for size in loops.get('reduced') or ())}".strip()


def difference(one: Sequence[str], other: Sequence[str]) -> str:
    """What the first kernel that is another one does differently; "" if all are the same."""
    counts = f"{len(one)} kernels and calls → {len(other)}; " if len(one) != len(other) else ""
    for before, after in itertools.zip_longest(one, other, fillvalue=": nothing"):
        if before != after:
            name = (before if before != ": nothing" else after).partition(": ")[0]
            parts = [Counter(each.partition(": ")[2].split("; ")) for each in (before, after)]
            gone, new = ("; ".join((parts[i] - parts[1 - i]).elements()) for i in (0, 1))
            return f"{counts}kernel {name}: {gone or 'nothing'} → {new or 'nothing'}"
    return ""
