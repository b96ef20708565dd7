"""reduction_kernels: forms of a reduction's Triton kernel: looped, persistent, cooperative, mix-order, nested, split.

Options of Inductor choose the form. The result must not depend on it.
"""

import torch

from conformance import case, references, tensor

ONLY = {"gpu": "these are forms of Triton kernels"}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}

_ORDER = "whether a part of a row overflows depends on how the kernel divides the row"
SUM = {"without": {"full_range": _ORDER}}
#: A part of the factors can become 0, and another one infinite.
PRODUCT = {"without": {"inf": _ORDER}}
VARIANCE = {"without": dict.fromkeys(("huge", "inf", "full_range"), _ORDER)}

LOOPED = {"triton.persistent_reductions": False}
COOPERATIVE = {"triton.force_cooperative_reductions": True}


def kinds(**of_label):
    """What is required of the kinds of kernels, by the label of the case."""
    return {"all": INDUCTOR_ONLY} | {label: {"kinds": each} for label, each in of_label.items()}


# A looped kernel goes along its row in blocks; in a cooperative one, several programs share a row and wait for each
# other at a barrier.
@case(
    x=tensor(4, 3000),
    function={
        "sum": lambda x: x.sum(-1),
        "prod": lambda x: x.prod(-1),
        "any": lambda x: (x > 2).any(-1),
        "max": lambda x: x.max(-1),
        "argmin": lambda x: x.argmin(-1),
        "var_mean": lambda x: torch.var_mean(x, -1),
        "softmax": lambda x: x.softmax(-1),
    },
    config={"looped": LOOPED, "cooperative": COOPERATIVE, "both": COOPERATIVE | LOOPED},
    vary="one_at_a_time",
    also=[{"function": name, "config": "both"} for name in ("prod", "any", "max", "argmin", "var_mean", "softmax")],
    only=ONLY,
    require=kinds(
        looped=["reduction"], cooperative=["cooperative persistent reduction"], both=["cooperative reduction"]
    ),
    numerics={"for": {"sum": SUM, "prod": PRODUCT, "var_mean": VARIANCE}},
)
def test_rows(x, function):
    return function(x)


# Inductor makes several kernels, and takes the fastest one when the code runs for the first time.
@case(
    x=tensor(4, 3000),
    config={
        "two": {"triton.multi_kernel": 1},
        "four": COOPERATIVE | {"triton.multi_kernel": 1},
    },
    only=ONLY,
    require=kinds(
        two=["reduction", "persistent reduction"],
        four=["cooperative reduction", "reduction", "cooperative persistent reduction", "persistent reduction"],
    ),
)
def test_choice_of_several(x):
    return x.softmax(-1)


# One kernel reads the elements once, for the sums of rows and of columns.
@case(
    x=tensor(260, 64),
    y=tensor(260, 64),
    config={
        "apart": {"triton.mix_order_reduction": False},
        "mixed": {"triton.mix_order_reduction_non_strict_mode": True},
    },
    only=ONLY,
    require=kinds(
        apart=["reduction", "persistent reduction", "persistent reduction"], mixed=["persistent reduction", "pointwise"]
    ),
)
def test_rows_and_columns(x, y):
    return (x * y).sum(-1), x.sum(0) * 2


# The scale of a block needs the mean of its whole row: one kernel has both reductions.
@case(
    x=tensor(64, 256),
    config={"apart": {"triton.nested_reduction": False}, "nested": {"triton.nested_reduction": True}},
    only={"gpu torch>=2.13": "nested reductions exist from torch 2.13 on"},
    require=kinds(apart=["persistent reduction", "persistent reduction"], nested=["persistent reduction"]),
)
def test_scales_of_blocks(x):
    normalized = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    blocks = normalized.view(64, 2, 128)
    scales = blocks.abs().amax(-1, keepdim=True) + 1
    return (blocks / scales).view(64, 256), scales


# Many programs share one long row. Each waits for the sum of the elements before its own. Torch 2.13 does not divide it
# for sm_100.
@case(
    x=tensor(1, 100_000, dtype=["f32", "i64"]),
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"kinds": ["split scan"]}, "cuda_sm100 torch==2.13.*": {"kinds": ["scan"]}},
    numerics={"for": {"f32": {"without": dict.fromkeys(("inf", "full_range"), _ORDER)}}},
)
def test_split_scan(x):
    return x.cumsum(-1)


# Few long columns: their halves are summed by two kernels, or by programs that wait for each other.
@case(
    x=tensor(6000, 5),
    function={"sum": lambda x: x.sum(0), "var": lambda x: x.var(0), "argmax": lambda x: x.argmax(0)},
    config={"split": {}, "unsplit": {"split_reductions": False}, "cooperative": COOPERATIVE},
    vary="one_at_a_time",
    also=[{"function": name, "config": "cooperative"} for name in ("var", "argmax")],
    only=ONLY,
    require=kinds(unsplit=["reduction"], cooperative=["cooperative reduction"]) | {"sum split": {"kernels": 2}},
    numerics={"for": {"sum": SUM, "var": {"without": dict.fromkeys(("huge", "inf"), _ORDER)}}},
)
def test_columns(x, function):
    return function(x)


test_references = references(test_rows, test_rows_and_columns, test_columns)
