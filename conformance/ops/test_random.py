"""random: dropout, random tensors, permutations. Results do not depend on which numbers are drawn."""

import torch

from conformance import case, tensor

functional = torch.nn.functional
#: For cases that ask whether the numbers are right: if they are, the answer is the same in every call.
ANSWER = {"exact": True, "fill": {"output": "it says whether the numbers are as they should be"}}


@case(
    x=tensor(40, 50, low=1, high=2),
    p=[0.5, 0.1],
    dtype=["f32", "bf16"],
    grad=[False, True],
    vary="one_at_a_time",
    # One call for the seed, for any number of random numbers.
    require={"all": {"fallbacks": [], "extern": ["aten.randint"], "graph_breaks": 0}, "forward": {"kernels": 1}},
)
def test_dropout(x, p):
    """Dropout returns 0 or x / (1 - p). Here both become x again."""
    y = functional.dropout(x, p) * (1 - p)
    return torch.where(y == 0, x, y)


@case(
    x=tensor(40, 50),
    function={
        "rand": lambda x: (torch.rand_like(x) >= 0) & (torch.rand_like(x) < 1),
        "randn": lambda x: torch.randn_like(x).abs() < 10,
        "randint": lambda x: (torch.randint_like(x, 3, 9) - 5.5).abs() < 3,
        "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.3)) * 2 != 1,
    },
    require={"all": {"graph_breaks": 0}},
    numerics=ANSWER,
)
def test_range(x, function):
    return function(x)


@case(
    x=tensor(100, 100),
    function={
        "rand": lambda x: (torch.rand_like(x).mean() - 0.5).abs() < 0.02,
        "randn": lambda x: (torch.randn_like(x).var() - 1).abs() < 0.1,
        "dropout": lambda x: ((functional.dropout(torch.ones_like(x), 0.3) == 0).float().mean() - 0.3).abs() < 0.03,
        "two_differ": lambda x: (torch.rand_like(x) == torch.rand_like(x)).float().mean() < 0.01,
    },
    require={"all": {"graph_breaks": 0}},
    numerics=ANSWER,
)
def test_distribution(x, function):
    return function(x)


@case(
    x=tensor(1),
    count=[1, 100],
    require={"all": {"graph_breaks": 0}},
    numerics={"exact": True, "for": {"count1": ANSWER}},
)
def test_randperm(x, count):
    return torch.randperm(count, device=x.device).sort().values


# Without Inductor's own generator, eager's generator draws the numbers.
@case(
    x=tensor(40, 50, low=1, high=2),
    config={"eager_numbers": {"fallback_random": True}},
    require={"all": {"graph_breaks": 0}},
)
def test_dropout_of_eager(x):
    y = functional.dropout(x, 0.5) * 0.5
    return torch.where(y == 0, x, y)


@case(
    x=tensor(40, 50, low=1, high=2, dtype="f16"),
    p=[0.3, 1.0],
    require={"all": {"fallbacks": [], "graph_breaks": 0}},
)
def test_dropout_of_other_dtypes(x, p):
    y = functional.dropout(x, p) * (1 - p)
    return torch.where(y == 0, x, y)


@case(
    x=tensor(40, 50, low=1, high=2, dtype=["f16", "f32"]),
    require={"all": {"fallbacks": [], "graph_breaks": 0}},
    numerics={"exact": True, "fill": {"output": "every element is dropped"}},
)
def test_dropout_of_all(x):
    return functional.dropout(x, 1.0)


@case(
    x=tensor(4, 6, 5, 9, low=1, high=2),
    function={
        # it drops a whole channel or nothing of it
        "dropout2d": lambda x: (functional.dropout2d(x, 0.5) == 0).sum((2, 3)) % 45,
        "alpha_dropout": lambda x: functional.alpha_dropout(x, 0.2).isfinite(),
        "gumbel_softmax": lambda x: (functional.gumbel_softmax(x, dim=1).sum(1) - 1).abs() < 1e-4,
        "exponential": lambda x: torch.empty_like(x).exponential_() >= 0,
    },
    require={"all": {"graph_breaks": 0}},
    numerics=ANSWER,
)
def test_drawn(x, function):
    return function(x)


@case(
    x=tensor(100, 100, dtype="bf16"),
    function={
        "rand": lambda x: (torch.rand_like(x).float().mean() - 0.5).abs() < 0.02,
        "bernoulli": lambda x: (torch.bernoulli(torch.full_like(x, 0.25)).float().mean() - 0.25).abs() < 0.03,
    },
    require={"all": {"graph_breaks": 0}},
    numerics=ANSWER,
)
def test_distribution_in_16_bits(x, function):
    return function(x)
