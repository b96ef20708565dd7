"""Computes operators on the CPU, by their definition: those that only a GPU has, and those that a GPU rounds otherwise.

Of an input in 16 bits, a GPU's normalisations keep mean and deviation in float32, where the CPU's round them to 16
bits. They are registered while an emulation runs, so that eager finds them too. The results have the sizes, dtypes and
strides of PyTorch's fake tensors.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from conformance.capture.emulation import atomic_additions
from conformance.capture.emulation.fake_strides import fake_results

#: Operators of attention. The name of the backward has the suffix `_backward`.
ATTENTION = ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
             "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_fused_attention_overrideable")  # fmt: skip


#: The devices for which the operators are registered now. torch 2.11 refuses to register one twice.
_registered: set[str] = set()


@contextlib.contextmanager
def registered_for(device: str) -> Iterator[None]:
    """Inside, the operators are registered for `device`, "cuda" or "xpu", in place of those of the build.

    A capture inside another one of the same device finds them registered.
    """
    if device in _registered:
        yield
        return
    library = torch.library.Library("aten", "IMPL", device.upper())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that kernels are replaced, which is intended
        for name in ATTENTION:
            for suffix, body in (("", _attention), ("_backward", _attention_backward)):
                library.impl(f"{name}{suffix}", _kernel(getattr(torch.ops.aten, name + suffix).default, body))
        for name, kernel in (_BATCH_NORMS | atomic_additions.KERNELS).items():
            library.impl(name, kernel)
        for name, body in _NORMS.items():
            library.impl(name, _kernel(getattr(torch.ops.aten, name).default, body))
        for name in _PRODUCTS:
            library.impl(f"{name}.dtype", _product(name))
            library.impl(f"{name}.dtype_out", _product(name))
    _registered.add(device)
    try:
        yield
    finally:
        _registered.discard(device)
        library._destroy()


def _kernel(op: Any, body: Any) -> Any:
    """A kernel for `op`. `body`: arguments by name → results on the CPU, None for a result that stays 0."""
    names = [argument.name for argument in op._schema.arguments]
    defaults = {argument.name: argument.default_value for argument in op._schema.arguments}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        arguments = defaults | dict(zip(names, args, strict=False)) | kwargs
        values = body(arguments)
        templates = fake_results(op, args, kwargs)
        device = arguments[names[0]].device
        return tuple(_result(like, value, device) for like, value in zip(templates, values, strict=True))

    return kernel


def _result(like: Any, value: Any, device: torch.device) -> Any:
    """A tensor with size, stride and dtype of `like` and the values of `value`; zeros if `value` is None.

    If `like` is no tensor, `value` itself.
    """
    if not isinstance(like, torch.Tensor):
        return value if like is not None else None
    result = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=device)
    if value is None:
        return result.zero_()
    if value.dim() == 0:
        return result.copy_(value.expand(like.size()))
    if value.dim() == like.dim() and value.size() != like.size():  # logsumexp is padded to whole blocks
        result.zero_()
        if like.numel():
            result.narrow(-1, 0, value.size(-1)).copy_(value)
        return result
    return result.copy_(value.reshape(like.size()))


def _attention_terms(
    arguments: Mapping[str, Any],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Query, key, value, scores and scale of an attention.

    The tensors are float32 on the CPU, of shape (…, heads, length, size), the scores (…, heads, query length, key
    length). Key and value are repeated to the number of heads of the query.
    """
    query, key, value = (arguments[name].cpu().float() for name in ("query", "key", "value"))
    repeats = query.size(-3) // key.size(-3)
    key, value = (each.repeat_interleave(repeats, -3) for each in (key, value))
    scale = arguments["scale"] if arguments["scale"] is not None else 1 / math.sqrt(query.size(-1))
    scores = query @ key.mT * scale
    if arguments.get("attn_bias") is not None:
        scores = scores + arguments["attn_bias"].cpu().float()
    if arguments["is_causal"]:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool)
        scores = scores.masked_fill(~ones.tril(), -math.inf)
    return query, key, value, scores, scale


def _probabilities(scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores. As in the kernels, it is 0 in a row where everything is masked."""
    return scores.softmax(-1).masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)


def _dropout_factor(
    arguments: Mapping[str, Any], scores: torch.Tensor, seed: torch.Tensor | None
) -> torch.Tensor | float:
    """The factor of dropout for each probability, 0 or 1 / (1 - p), in the shape of the scores, or 1.0.

    The forward and the backward use the same `seed`. The device would draw other numbers: a case with dropout must pass
    with any.
    """
    probability = arguments["dropout_p"]
    if seed is None or not probability:
        return 1.0
    drawn = torch.rand(scores.size(), generator=torch.Generator().manual_seed(int(seed.cpu().flatten()[0])))
    return (drawn >= probability) / (1 - probability)


def _attention(arguments: Mapping[str, Any]) -> list[Any]:
    query, _, value, scores, _ = _attention_terms(arguments)
    logsumexp = scores.logsumexp(-1)
    seed = torch.randint(2**31, ()) if arguments["dropout_p"] else None
    results: list[Any] = [(_probabilities(scores) * _dropout_factor(arguments, scores, seed)) @ value, logsumexp]
    if "compute_log_sumexp" in arguments and not arguments["compute_log_sumexp"]:
        results[1] = None
    key = arguments["key"]
    if "return_debug_mask" in arguments:  # cum_seq_q, cum_seq_k, max_q, max_k, state of the generator
        results += [None, None, query.size(-2), key.size(-2), seed, None, None]
    else:
        results += [seed, None]
    return results


def _attention_backward(arguments: Mapping[str, Any]) -> list[Any]:
    query, key, value, scores, scale = _attention_terms(arguments)
    gradient = arguments["grad_out_" if "grad_out_" in arguments else "grad_out"].cpu().float()
    probabilities = _probabilities(scores)
    dropout = _dropout_factor(arguments, scores, arguments["philox_seed"])
    of_probabilities = gradient @ value.mT * dropout
    of_scores = probabilities * (of_probabilities - (of_probabilities * probabilities).sum(-1, keepdim=True))
    heads = arguments["key"].size(-3)
    gradients = [
        of_scores @ key * scale,
        _summed_over_groups(of_scores.mT @ query * scale, heads),
        _summed_over_groups((probabilities * dropout).mT @ gradient, heads),
    ]
    if "grad_input_mask" in arguments:
        bias = arguments["attn_bias"]
        gradients.append(
            of_scores.sum_to_size(bias.size()) if bias is not None and arguments["grad_input_mask"][3] else None
        )
    return gradients


def _summed_over_groups(gradient: torch.Tensor, heads: int) -> torch.Tensor:
    """The gradient, summed over the query heads that share one of `heads` key heads."""
    return gradient.unflatten(-3, (heads, -1)).sum(-3) if gradient.size(-3) != heads else gradient


def _on_host(value: Any) -> Any:
    """A tensor on the CPU: of 16 bits, in float32. Anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.cpu().float() if value.dtype in (torch.float16, torch.bfloat16) else value.cpu()


def _native_batch_norm(  # no _kernel: it changes the running statistics, which its schema does not say
    value: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, epsilon: float
) -> tuple[torch.Tensor, ...]:
    host = [_on_host(each) for each in (value, weight, bias, mean, var)]
    results = torch.native_batch_norm(*host, training, momentum, epsilon)
    for running, new in ((mean, host[3]), (var, host[4])):
        if running is not None and training:
            running.data.copy_(new)  # autograd does not count this write, as it does not on a device
    output, *statistics = (each.to(value.device) for each in results)
    return output.to(value.dtype), *statistics


def _batch_norm_without_running_statistics(
    value: Any, weight: Any, bias: Any, training: bool, momentum: float, epsilon: float
) -> tuple[torch.Tensor, ...]:
    return _native_batch_norm(value, weight, bias, None, None, training, momentum, epsilon)


def _batch_norm_with_update(
    value: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, epsilon: float
) -> tuple[torch.Tensor, ...]:
    results = _native_batch_norm(value, weight, bias, mean, var, True, momentum, epsilon)
    return *results, value.new_empty(0, dtype=torch.uint8)


def _of_host(op: Any) -> Any:
    """The body of a kernel that computes `op` on the CPU, of 16 bits in float32."""

    def body(arguments: Mapping[str, Any]) -> Any:
        return op(*map(_on_host, arguments.values()))

    return body


def _product(name: str) -> Any:
    """A product with another dtype of the result, `out_dtype`: the inputs are exact there, and it is rounded once."""
    op = getattr(torch.ops.aten, name).default
    tensors = sum(isinstance(each.type, torch.TensorType) for each in op._schema.arguments)

    def kernel(*args: Any, out: Any = None, **scalars: Any) -> torch.Tensor:
        result = op(*(each.cpu().to(args[tensors]) for each in args[:tensors]), **scalars)
        return result.to(args[0].device) if out is None else out.copy_(result)

    return kernel


def _rms_norm_backward(arguments: Mapping[str, Any]) -> list[Any]:
    """The gradients of input and weight of x * rstd * weight. rstd is taken over the last dimensions."""
    gradient, value, rstd = (arguments[name].cpu().float() for name in ("grad_out", "input", "rstd"))
    inner = tuple(range(-len(arguments["normalized_shape"]), 0))
    weight = 1.0 if arguments["weight"] is None else arguments["weight"].cpu().float()
    normed, weighted = value * rstd, gradient * weight
    of_value = rstd * (weighted - normed * (weighted * normed).mean(inner, keepdim=True))
    of_weight = (gradient * normed).sum_to_size(tuple(arguments["normalized_shape"]))
    return [
        each if is_needed else None
        for each, is_needed in zip((of_value, of_weight), arguments["output_mask"], strict=True)
    ]


#: Products that have an overload with a dtype of the result. The CPU has no kernel of that overload.
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
#: Name → kernel.
_BATCH_NORMS = {
    "native_batch_norm": _native_batch_norm,
    "_native_batch_norm_legit": _native_batch_norm,
    "_native_batch_norm_legit.no_stats": _batch_norm_without_running_statistics,
    "_batch_norm_with_update": _batch_norm_with_update,
}
#: Name → body of its kernel.
_NORMS = {
    "native_layer_norm": _of_host(torch.ops.aten.native_layer_norm.default),
    "native_layer_norm_backward": _of_host(torch.ops.aten.native_layer_norm_backward.default),
    "batch_norm_backward": _of_host(torch.ops.aten.batch_norm_backward.default),
    "native_batch_norm_backward": _of_host(torch.ops.aten.native_batch_norm_backward.default),
    "_fused_rms_norm_backward": _rms_norm_backward,
}
