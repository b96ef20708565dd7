"""What each kernel rounds otherwise than eager, from its operators: the reason why compiled may have other bits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conformance.capture.observers.pattern_rewrites import COUNTERS
from conformance.facts.exact_operators import EXACT, EXACT_ON_CPU
from conformance.facts.kernels import label
from conformance.facts.model import ObservedCapture
from conformance.facts.patterns import patterns

if TYPE_CHECKING:
    from conformance.facts.reduction_order import ReductionOrder

#: Where Dynamo traces svdvals and eigvalsh, ATen makes these compute the vectors too: LAPACK has another driver then.
_WITH_VECTORS = frozenset({"_linalg_svd", "_linalg_eigh"})
#: These choose one of equal elements.
_CHOOSE = frozenset(
    ["argmax", "argmin", "cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "sort", "topk"]
)
#: On a GPU, compiled and eager choose another of 0.0 and -0.0.
_CHOOSE_ZERO = frozenset(["amax", "amin", "clamp", "clamp_max", "clamp_min", "hardtanh", "maximum", "minimum", "relu"])
_16_BITS = re.compile(r"\*(?:fp16|bf16)'|at::(?:BFloat16|Half)\b|\b(?:bfloat16|half)\*")


def reasons(order: ReductionOrder, device: str, options: Mapping[str, Any]) -> Iterator[str]:
    """A reason for each kernel that may round otherwise than eager. `device`: the type of the target's device.
    `options`: the case's own options of Inductor.

    Of a library call, none where eager calls the same. At last, what patterns of Inductor made of the graph.
    """
    contracts = _contracts(device, options)
    narrow = any(_16_BITS.search(module.code) for module in order.capture.modules)
    for number, call in enumerate(ObservedCapture.of(order.capture).calls, 1):
        if call["call"] == "kernel" and (found := _reason(call, order, device, narrow=narrow, contracts=contracts)):
            yield f"kernel {label(call, number)} {found}"
    for number, call in enumerate(ObservedCapture.of(order.capture).calls, 1):
        name = call.get("name", "").removeprefix("aten.").partition(".")[0]
        if name in _WITH_VECTORS:
            yield f"call {label(call, number)} may compute vectors too, where eager computes values alone"
        if call["call"] != "kernel" and call["ops"] and name not in {*call["ops"], *EXACT}:
            yield f"call {label(call, number)} is for {', '.join(call['ops'])}"
    if order.unstable:
        yield f"other bits in each run: {order.unstable}"
    rewritten = patterns(ObservedCapture.of(order.capture))
    if rewritten.value:
        yield f"a pattern changed the graph: {rewritten.lines[0]}"
    if order.capture.counters.get(COUNTERS, {}).get("joint_graph.pointless_convert"):
        yield "a pattern removed conversions, and eager rounds at each: joint_graph.pointless_convert"


def _contracts(device: str, options: Mapping[str, Any]) -> bool:
    """Whether the compiler may make one fma of a product and a sum."""
    return device != "cpu" or options.get("cpp.enable_floating_point_contract_flag", "off") != "off"


def regrouped(order: ReductionOrder, device: str, options: Mapping[str, Any]) -> str:
    """Why other kernels of the same operators may round otherwise, where no bits depend on an order; "" if none may."""
    kernels = ObservedCapture.of(order.capture).kernels
    several = [call for call in kernels if len(call["decomposed"]) > 1 or call["fused"] > 1]
    if several and any(_16_BITS.search(module.code) for module in order.capture.modules):
        return "16-bit results are rounded at the end of each kernel, and other kernels end elsewhere"
    fused = [call for call in several if "mul" in call["decomposed"] or call.get("scaled")]
    if _contracts(device, options) and any({"add", "sub"} & {*call["decomposed"]} for call in fused):
        return "mul and add of one kernel may be contracted to one fma, and in two kernels they are not"
    return ""


def _reason(call: Mapping[str, Any], order: ReductionOrder, device: str, *, narrow: bool, contracts: bool) -> str:
    operators = list(dict.fromkeys(name.removeprefix("prims.") for name in (*call["ops"], *call["decomposed"])))
    is_whole = bool(order.texts) and not order.has_floats(call)
    chosen = [name for name in operators if name in _CHOOSE]
    exact = EXACT | _CHOOSE | {"convert_element_type"} | (EXACT_ON_CPU if device == "cpu" else set())
    inexact = [] if is_whole else [name for name in operators if name not in exact]
    if any("random" in name for name in operators):
        return "draws its own random numbers"
    if order.adds_up(call):
        return f"adds up in its own order: {', '.join(call['ops'])}"
    if narrow and (len(call["decomposed"]) > 1 or (call.get("work") or {}).get("casts")):
        return f"rounds to 16 bits only after all of {', '.join(call['ops'])}"
    if inexact:
        return f"has its own way to compute {', '.join(inexact)}"
    if not is_whole and ({*call["decomposed"]} - {*call["ops"]}) & {"add", "div", "mul", "sub"}:
        return f"has its own way to compute {', '.join(call['ops'])}"
    if chosen:
        return f"may choose another of equal elements: {', '.join(chosen)}"
    zeros = [name for name in operators if name in _CHOOSE_ZERO]
    if device != "cpu" and not is_whole and zeros:
        return f"may choose the other of 0.0 and -0.0: {', '.join(zeros)}"
    if call.get("scaled") and not is_whole:
        return "adds a multiple (alpha), and eager or this kernel may do it by one fma"
    if contracts and "mul" in operators and {"add", "sub"} & set(operators):
        return "may contract mul and add to one fma"
    return ""
