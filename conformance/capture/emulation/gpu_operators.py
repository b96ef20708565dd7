"""Operators that only a gpu has kernels for, computed on the cpu by their definition.

Registered while an emulation runs, so that eager finds them too. Sizes, dtypes and strides of the results are those of
PyTorch's fake tensors (torch 2.11 to 2.15).
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from conformance.capture.emulation.fake_strides import expected

#: Operators of attention; the backward's has the same name and `_backward`.
ATTENTION = ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
             "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_fused_attention_overrideable")  # fmt: skip


@contextlib.contextmanager
def registered(device: str) -> Iterator[None]:
    """For "cuda" or "xpu"; what the build has comes back afterwards."""
    library = torch.library.Library("aten", "IMPL", device.upper())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced is the intention
        for name in ATTENTION:
            for suffix, body in (("", _forward), ("_backward", _backward)):
                library.impl(f"{name}{suffix}", _kernel(getattr(torch.ops.aten, name + suffix).default, body))
        library.impl("native_batch_norm", _native_batch_norm)
        library.impl("_fused_rms_norm_backward", _kernel(torch.ops.aten._fused_rms_norm_backward.default, _rms_norm))
    try:
        yield
    finally:
        library._destroy()


def _kernel(op: Any, body: Any) -> Any:
    names = [argument.name for argument in op._schema.arguments]
    defaults = {argument.name: argument.default_value for argument in op._schema.arguments}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = defaults | dict(zip(names, args, strict=False)) | kwargs
        values = body(given)
        templates = expected(op, args, kwargs)
        return tuple(
            _result(like, value, given[names[0]].device) for like, value in zip(templates, values, strict=True)
        )

    return kernel


def _result(like: Any, value: Any, device: torch.device) -> Any:
    """A tensor as `like`, holding `value`; zeros where there is none, as for the state of a generator not used."""
    if not isinstance(like, torch.Tensor):
        return value if like is not None else None
    result = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=device)
    if value is None:
        return result.zero_()
    if value.dim() == 0:
        return result.copy_(value.expand(like.size()))
    if value.dim() == like.dim() and value.size() != like.size():  # logsumexp, padded to whole blocks
        result.zero_()
        return result.narrow(-1, 0, value.size(-1)).copy_(value)._base if like.numel() else result
    return result.copy_(value.reshape(like.size()))


def _parts(given: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
    """query, key, value in float32 on the cpu, heads shared as often as the query has them, and the scores."""
    query, key, value = (given[name].cpu().float() for name in ("query", "key", "value"))
    shared = query.size(-3) // key.size(-3)
    key, value = (each.repeat_interleave(shared, -3) for each in (key, value))
    scale = given["scale"] if given["scale"] is not None else 1 / math.sqrt(query.size(-1))
    scores = query @ key.mT * scale
    if given.get("attn_bias") is not None:
        scores = scores + given["attn_bias"].cpu().float()
    if given["is_causal"]:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool)
        scores = scores.masked_fill(~ones.tril(), -math.inf)
    return query, key, value, scores, scale


def _probable(scores: torch.Tensor) -> torch.Tensor:
    """Rows of which everything is masked give nothing, as in the kernels."""
    return scores.softmax(-1).masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)


def _kept(given: Mapping[str, Any], scores: torch.Tensor, seed: torch.Tensor | None) -> torch.Tensor | float:
    """What dropout multiplies probabilities by, 0 or 1 / (1 - p), by the seed that the forward has given away.

    Not the numbers that the device would draw: a case with any holds whatever they are.
    """
    dropped = given["dropout_p"]
    if seed is None or not dropped:
        return 1.0
    drawn = torch.rand(scores.size(), generator=torch.Generator().manual_seed(int(seed.cpu().flatten()[0])))
    return (drawn >= dropped) / (1 - dropped)


def _forward(given: Mapping[str, Any]) -> list[Any]:
    query, _, value, scores, _ = _parts(given)
    logsumexp = scores.logsumexp(-1)
    seed = torch.randint(2**31, ()) if given["dropout_p"] else None
    found: list[Any] = [(_probable(scores) * _kept(given, scores, seed)) @ value, logsumexp]
    if "compute_log_sumexp" in given and not given["compute_log_sumexp"]:
        found[1] = None
    key = given["key"]
    if "return_debug_mask" in given:  # cum_seq_q, cum_seq_k, max_q, max_k, and the generator's state
        found += [None, None, query.size(-2), key.size(-2), seed, None, None]
    else:
        found += [seed, None]
    return found


def _backward(given: Mapping[str, Any]) -> list[Any]:
    query, key, value, scores, scale = _parts(given)
    gradient = given["grad_out_" if "grad_out_" in given else "grad_out"].cpu().float()
    probable, kept = _probable(scores), _kept(given, scores, given["philox_seed"])
    of_probable = gradient @ value.mT * kept
    of_scores = probable * (of_probable - (of_probable * probable).sum(-1, keepdim=True))
    heads = given["key"].size(-3)
    found = [
        of_scores @ key * scale,
        _shared(of_scores.mT @ query * scale, heads),
        _shared((probable * kept).mT @ gradient, heads),
    ]
    if "grad_input_mask" in given:
        bias = given["attn_bias"]
        found.append(of_scores.sum_to_size(bias.size()) if bias is not None and given["grad_input_mask"][3] else None)
    return found


def _shared(gradient: torch.Tensor, heads: int) -> torch.Tensor:
    """Summed over the heads of the query that share one of the key's."""
    return gradient.unflatten(-3, (heads, -1)).sum(-3) if gradient.size(-3) != heads else gradient


def _native_batch_norm(  # its schema hides that it changes the running statistics, and copies of them would be changed
    value: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, epsilon: float
) -> tuple[torch.Tensor, ...]:
    host = [None if each is None else each.cpu() for each in (value, weight, bias, mean, var)]
    found = torch.native_batch_norm(*host, training, momentum, epsilon)
    for running, new in ((mean, host[3]), (var, host[4])):
        if running is not None and training:
            running.copy_(new)
    return tuple(each.to(value.device) for each in found)


def _rms_norm(given: Mapping[str, Any]) -> list[Any]:
    """Gradients of input and weight of x * rstd * weight, rstd over the last dimensions."""
    gradient, value, rstd = (given[name].cpu().float() for name in ("grad_out", "input", "rstd"))
    inner = tuple(range(-len(given["normalized_shape"]), 0))
    weight = 1.0 if given["weight"] is None else given["weight"].cpu().float()
    normed, weighted = value * rstd, gradient * weight
    of_value = rstd * (weighted - normed * (weighted * normed).mean(inner, keepdim=True))
    of_weight = (gradient * normed).sum_to_size(tuple(given["normalized_shape"]))
    return [each if wanted else None for each, wanted in zip((of_value, of_weight), given["output_mask"], strict=True)]
