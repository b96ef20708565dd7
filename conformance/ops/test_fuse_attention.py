"""fuse_attention: each form of attention written by hand that Inductor replaces with scaled_dot_product_attention.

Each form has its own pattern in torch/_inductor/fx_passes/fuse_attention.py. Patterns 1 to 12 differ in where the scale
is, whether the heads are permuted, and whether there is dropout. Most others stand for a model and have its name here.
"""

import torch
from torch.nn.functional import dropout

from conformance import case, tensor

#: (batch, heads, tokens, features of a head).
PLAIN = {name: tensor(2, 4, 8, 16, dtype="f16") for name in "qkv"}
#: (batch, tokens, heads, features of a head), as a linear layer and a view give them.
PERMUTED = {name: tensor(2, 8, 4, 16, dtype="f16") for name in "qkv"}

HUGE = {"without": {"huge": "for scores beyond 1 / eps, rounding decides which key wins, and the kernel rounds later"}}

ALL_HIDDEN = "the mask may hide each key of one sequence: eager is NaN then, and the fused attention 0"
HIDDEN = "the kernel adds -inf to a score that is hidden, and by hand it is replaced: they differ if it is inf or NaN"

ROUNDED = "where a factor is inf, the product is NaN if the other factor rounds to 0, and the kernel rounds elsewhere"

CANCELLED = "the fused kernel's gradient subtracts a sum over the rounded output, so nearly equal gradients lose digits"


#: What scaled_dot_product_attention calls where no fused kernel exists.
safe_softmax = torch.ops.aten._safe_softmax  # noqa: SLF001


def matched(pattern):
    """The pattern matches, and no product of matrices is left."""
    return {f"patterns.fuse_attention.{pattern}": 1, "extern": []}


NOT_MATCHED = {"patterns.fuse_attention": 0}


def heads_first(*tensors):
    return [x.permute(0, 2, 1, 3) for x in tensors]


def merged(y):
    """The heads of a token next to each other, as the next linear layer takes them. Eager's strides are compiled's."""
    return y.transpose(1, 2).flatten(2)


def number(value, like):
    return torch.full((), value, dtype=like.dtype, device=like.device)


# Pattern 1, the scores divided by a number, is in test_sdpa.py.
def multiplied(q, k, v):
    return (q @ k.mT * 0.25).softmax(dim=-1) @ v


def of_3d(q, k, v):
    return torch.bmm(torch.bmm(q[0], k[0].transpose(1, 2)).softmax(dim=-1), v[0])


@case(
    **PLAIN,
    form={"multiplied": multiplied, "of_3d": of_3d},
    require={
        "multiplied": matched("sfdp_pattern_2"),
        "of_3d": matched("sfdp_pattern_13"),
    },
    numerics=HUGE,
)
def test_plain(q, k, v, form):
    return form(q, k, v)


def divided(q, k, v):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT / 4.0).softmax(dim=-1) @ v)


def softmax_of_float32(q, k, v):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT / 4.0).float().softmax(dim=-1).half() @ v)


def queries_divided(q, k, v):
    q, k, v = heads_first(q, k, v)
    return merged(((q / 4.0) @ k.mT).float().softmax(dim=-1).half() @ v)


def t5_decoder(q, k, v):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT).float().type_as(q).float().softmax(dim=-1).type_as(q) @ v), k, v


def both_multiplied(q, k, v):
    q, k, v = heads_first(q, k, v)
    scores = torch.ops.aten.mul.Scalar(q, 0.5) @ torch.ops.aten.mul.Scalar(k.mT, 0.5)
    return merged(safe_softmax(scores, -1) @ v)


# Without a gradient there is no dropout, and the pattern with dropout, which comes first, matches too.
@case(
    **PERMUTED,
    form={"softmax_of_float32": softmax_of_float32, "queries_divided": queries_divided},
    require={
        "softmax_of_float32": matched("sfdp_pattern_7"),
        "queries_divided": matched("sfdp_pattern_9"),
    },
    numerics=HUGE,
)
def test_permuted(q, k, v, form):
    return form(q, k, v)


# With a gradient the pattern with dropout does not match, and the one without has its turn. The product of all inputs
# gives each gradient the strides of its input.
@case(
    **PERMUTED,
    form={"softmax_of_float32": softmax_of_float32, "queries_divided": queries_divided},
    grad=True,
    require={
        "softmax_of_float32": {"patterns.fuse_attention.sfdp_pattern_8": 1},
        "queries_divided": {"patterns.fuse_attention.sfdp_pattern_10": 1},
    },
    numerics=HUGE
    | {
        "for": {
            "cpu": {"without": HUGE["without"] | dict.fromkeys(("edges", "exponents", "negative", "far"), CANCELLED)},
            "cuda": {
                "without": HUGE["without"]
                | dict.fromkeys(("edges", "exponents", "negative"), CANCELLED)
                | {"inf": ROUNDED}
            },
        }
    },
)
def test_permuted_backward(q, k, v, form):
    return form(q, k, v), q * k * v


@case(
    **PERMUTED,
    form={"t5_decoder": t5_decoder, "both_multiplied": both_multiplied},
    require={
        "t5_decoder": matched("sfdp_pattern_23"),
        "both_multiplied torch>=2.13": matched("sfdp_pattern_30"),
        "both_multiplied torch<2.13": NOT_MATCHED,
    },
    numerics=HUGE,
)
def test_model(q, k, v, form):
    return form(q, k, v)


@case(
    **{name: tensor(2, 8, 4, 16) for name in "qkv"},
    # On cuda fuse_attention matches float32 only if TF32 is allowed, because the fused kernels use it.
    require={"cpu": matched("sfdp_pattern_11"), "xpu": matched("sfdp_pattern_11"), "cuda": NOT_MATCHED},
    numerics=HUGE,
)
def test_permuted_float32(q, k, v):
    return divided(q, k, v)


def added(q, k, v, mask):
    return (q @ k.mT / 4.0 + mask).softmax(dim=-1) @ v


def mbart(q, k, v, mask):
    batch, heads, tokens, features = q.shape
    q, k, v = (x.reshape(batch * heads, -1, features) for x in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, tokens, tokens) + mask.float()
    scores = scores.view(batch * heads, tokens, tokens)
    return torch.bmm(scores.softmax(dim=-1).half(), v).view(batch, heads, tokens, features)


def gpt2_masked(q, k, v, mask):
    scores = q @ k.permute(0, 1, 3, 2)
    scores = scores / number(4.0, scores)
    causal = torch.ones(8, 8, dtype=torch.bool, device=q.device).tril()
    scores = torch.where(causal, scores, number(torch.finfo(q.dtype).min, q)) + mask.float()
    return scores.softmax(dim=-1).type(v.dtype) @ v


@case(
    **PLAIN,
    mask=tensor(1, 1, 8, 8, dtype="f16"),
    form={"added": added, "mbart": mbart, "gpt2": gpt2_masked},
    require={
        "added": matched("sfdp_pattern_5"),
        "mbart": matched("sfdp_pattern_24"),
        "gpt2": matched("sfdp_pattern_19"),
    },
    numerics=HUGE | {"for": {"gpt2": {"without": HUGE["without"] | {"nan": HIDDEN, "inf": HIDDEN}}}},
)
def test_masked(q, k, v, mask, form):
    return merged(form(q, k, v, mask))


def bert(q, k, v, mask):
    return merged(added(*heads_first(q, k, v), mask))


def t5_masked(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT + mask.float()).type_as(q).float().softmax(dim=-1).type_as(q) @ v)


def t5_decoder_masked(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT + mask.float()).type_as(q).float().softmax(dim=-1).type_as(q) @ v), k, v


# T5 with dropout, but without a gradient, where there is no dropout.
def t5_dropout(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT + mask).float().softmax(dim=-1).type_as(q) @ v)


def t5_decoder_dropout(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT + mask).float().softmax(dim=-1).type_as(q) @ v), k, v


def t5_decoder_unmasked_dropout(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged((q @ k.mT).float().softmax(dim=-1).type_as(q) @ v), k, v


def both_multiplied_masked(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    scores = torch.ops.aten.mul.Scalar(q, 0.5) @ torch.ops.aten.mul.Scalar(k.mT, 0.5)
    return merged(safe_softmax(scores + mask, -1) @ v)


@case(
    **PERMUTED,
    mask=tensor(2, 1, 1, 8, dtype="f16"),
    form={
        "bert": bert,
        "t5": t5_masked,
        "t5_decoder": t5_decoder_masked,
        "both_multiplied": both_multiplied_masked,
    },
    require={
        "bert": matched("sfdp_pattern_14"),
        "t5": matched("sfdp_pattern_21"),
        "t5_decoder": matched("sfdp_pattern_22"),
        "both_multiplied torch>=2.13": matched("sfdp_pattern_29"),
        "both_multiplied torch<2.13": NOT_MATCHED,
    },
    numerics=HUGE,
)
def test_model_masked(q, k, v, mask, form):
    return form(q, k, v, mask)


# Inductor does not match these on cuda, where they lost accuracy: see disable_cuda in fuse_attention.py.
@case(
    **PERMUTED,
    mask=tensor(2, 1, 1, 8, dtype="f16"),
    form={
        "t5": t5_dropout,
        "t5_decoder": t5_decoder_dropout,
        "t5_decoder_unmasked": t5_decoder_unmasked_dropout,
    },
    require={
        "cuda": NOT_MATCHED,
        **{
            f"{device} {form}": matched(pattern)
            for device in ("cpu", "xpu")
            for form, pattern in {
                "t5": "sfdp_pattern_25",
                "t5_decoder": "sfdp_pattern_26",
                "t5_decoder_unmasked": "sfdp_pattern_27",
            }.items()
        },
    },
    numerics=HUGE,
)
def test_model_not_on_cuda(q, k, v, mask, form):
    return form(q, k, v, mask)


def hidden(scores, mask):
    return scores.masked_fill((mask == 0).view(2, 1, 1, 8).expand_as(scores), number(-float("inf"), scores))


def distilbert(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged(hidden(q @ k.mT / 4.0, mask).softmax(dim=-1) @ v)


def distilbert_queries_divided(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    return merged(hidden(q / 4.0 @ k.mT, mask).softmax(dim=-1) @ v)


def gpt2(q, k, v, mask):
    q, k, v = heads_first(q, k, v)
    scores = q @ k.permute(0, 1, 3, 2)
    scores = scores / number(4.0, scores)
    scores = torch.where(mask.view(2, 1, 1, 8) > 0, scores, number(torch.finfo(q.dtype).min, q))
    return merged(scores.softmax(dim=-1) @ v), k, v


# 0 in the mask hides a key, 1 does not.
@case(
    **PERMUTED,
    mask=tensor(2, 8, dtype="f16", low=0, high=1),
    form={"distilbert": distilbert, "queries_divided": distilbert_queries_divided, "gpt2": gpt2},
    require={
        "distilbert": matched("sfdp_pattern_15"),
        "queries_divided": matched("sfdp_pattern_20"),
        "gpt2": matched("sfdp_pattern_18"),
    },
    numerics={
        "without": HUGE["without"]
        | {"nan": f"{HIDDEN}; this differs between seeds", "inf": HIDDEN}
        | {"positive": ALL_HIDDEN, "exponents": f"{ALL_HIDDEN}; this differs between seeds"}
    },
)
def test_keys_hidden(q, k, v, mask, form):
    return form(q, k, v, mask.round())


# Every value but 0 shows a key. Inductor's replacement shows those with 1 only.
@case(
    **{name: tensor(2, 8, 4, 16, dtype="f16", low=-1, high=1) for name in "qkv"},
    mask=tensor(2, 8, dtype="f16", low=1, high=2),
    require={"all": matched("sfdp_pattern_15")},
)
def test_mask_of_one_and_two(q, k, v, mask):
    return distilbert(q, k, v, mask.round())


#: Dropout with 0.5 gives probabilities that add up to at most 2, so attention to values in [1, 2] is in [0, 4].
ONE_TO_TWO = {name: tensor(2, 8, 4, 16, dtype="f16", low=1, high=2) for name in "qkv"}


def if_in_range(y, q, k, v):
    """A result that does not depend on what was dropped: q * k * v, if y is in the range that dropout allows."""
    return torch.where(((y >= 0) & (y < 4.1)).all(), q * k * v, y.sum())


def visformer(q, k, v):
    q, k, v = heads_first(q, k, v)
    return dropout((q @ k.mT * 0.25).softmax(dim=-1), 0.5) @ v


def permuted_dropped(q, k, v):
    q, k, v = heads_first(q, k, v)
    return dropout((q @ k.mT / 4.0).softmax(dim=-1), 0.5) @ v


# On cpu and xpu scaled_dot_product_attention with dropout is two products again: no fused kernel has dropout there.
@case(
    **ONE_TO_TWO,
    form={"visformer": visformer, "permuted": permuted_dropped},
    grad=True,
    require={
        "visformer torch>=2.13": {"patterns.fuse_attention.sfdp_pattern_28": 1},
        "visformer cuda torch>=2.13": {"extern": []},
        "visformer torch<2.13": NOT_MATCHED,
        "permuted": {"patterns.fuse_attention.sfdp_pattern_12": 1},
        "permuted cuda": {"extern": []},
    },
)
def test_dropout(q, k, v, form):
    return if_in_range(form(q, k, v), q, k, v)


def if_dropped(y, q, k, v):
    """As above, if some element of y is larger than any that a mean of numbers below 2 can be."""
    return torch.where((y > 2).any(), q * k * v, y.sum())


@case(**ONE_TO_TWO, form={"visformer": visformer, "permuted": permuted_dropped}, grad=True, checks=["numerics"])
def test_dropout_drops(q, k, v, form):
    return if_dropped(form(q, k, v), q, k, v)


def divided_dropped(q, k, v, mask):
    return dropout((q @ k.mT / 4.0).softmax(dim=-1), 0.5) @ v


def multiplied_dropped(q, k, v, mask):
    return dropout((q @ k.mT * 0.25).softmax(dim=-1), 0.5) @ v


def added_dropped(q, k, v, mask):
    return dropout((q @ k.mT / 4.0 + mask).softmax(dim=-1), 0.5) @ v


PLAIN_DROPPED = {
    **{name: tensor(2, 4, 8, 16, dtype="f16", low=1, high=2) for name in "qkv"},
    "mask": tensor(2, 1, 1, 8, dtype="f16", low=1, high=2),
    "form": {"divided": divided_dropped, "multiplied": multiplied_dropped, "added": added_dropped},
    "grad": "q k v",
}


@case(**PLAIN_DROPPED, checks=["numerics"])
def test_plain_dropout_drops(q, k, v, mask, form):
    return if_dropped(form(q, k, v, mask), q, k, v)


@case(
    **PLAIN_DROPPED,
    require={
        "divided": {"patterns.fuse_attention.sfdp_pattern_3": 1},
        "multiplied": {"patterns.fuse_attention.sfdp_pattern_4": 1},
        "added": {"patterns.fuse_attention.sfdp_pattern_6": 1},
    },
)
def test_plain_dropout(q, k, v, mask, form):
    return if_in_range(form(q, k, v, mask), q, k, v)


# On cuda the replacement of pattern 16 is attention by hand again, for accuracy; torch 2.11 does not match there.
@case(
    **{name: tensor(2, 8, 8, 16, dtype="f16", low=1, high=2) for name in "qkv"},
    mask=tensor(2, 1, 1, 8, dtype="f16", low=1, high=2),
    grad="q k v",
    require={
        "cpu": {"patterns.fuse_attention.sfdp_pattern_16": 1},
        "xpu": {"patterns.fuse_attention.sfdp_pattern_16": 1},
        "cuda torch>=2.13": {"patterns.fuse_attention.sfdp_pattern_16": 1},
        "cuda torch<2.13": NOT_MATCHED,
    },
)
def test_bert_dropout(q, k, v, mask):
    permuted_q, permuted_k, permuted_v = heads_first(q, k, v)
    scores = permuted_q @ permuted_k.mT / 4.0 + mask
    return if_in_range(dropout(scores.softmax(dim=-1), 0.5).to(q.dtype) @ permuted_v, q, k, v)


@case(q=tensor(2, 8, 4, 16), k=tensor(2, 8, 4, 16), v=tensor(2, 8, 4, 16), checks=("numerics",))
def test_key_permuted_to_columns(q, k, v):
    """No transpose is left for the product: the permutation has put the features before the tokens."""
    scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * 0.25
    return scores.softmax(-1) @ v.transpose(1, 2)
