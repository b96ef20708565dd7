"""complex: arithmetic of complex numbers, which Inductor leaves to eager, and of their parts, which it compiles."""

import torch

from conformance import case, tensor

NO_GRAPH_BREAKS = {"graph_breaks": 0}


@case(
    z=tensor(4, 20, dtype="c64"),
    w=tensor(4, 20, dtype="c64"),
    function={
        "add": lambda z, w: z + w,
        "mul": lambda z, w: z * w,
        "scaled": lambda z, w: z * 2.5 - w,
        "conj": lambda z, _: z.conj().resolve_conj(),
        "parts": lambda z, w: z.real * w.imag,
        "as_real": lambda z, _: torch.view_as_real(z).sum(-1),
        "abs": lambda z, _: z.abs() + 1,
        "angle": lambda z, _: z.angle() + 1,
        "sum": lambda z, _: z.sum(-1),
        "transposed": lambda z, w: (z @ w.mH).real,
        "where": lambda z, w: torch.where(z.real > 0, z, w),
        "equal": lambda z, w: z == w,
        "cat": lambda z, w: torch.cat([z, w], -1),
    },
    require={"all": NO_GRAPH_BREAKS},
)
def test_functions(z, w, function):
    return function(z, w)


@case(
    z=tensor(4, 20, dtype="c64", layout=["contiguous", "transposed"]),
    w=tensor(4, 20, dtype="c64"),
    function={
        "mul": lambda z, w: z * w,
        "div": lambda z, w: z / w,
        "scaled": lambda z, w: z * 2.5 - w.conj(),
        "parts": lambda z, w: z.real * w.imag,
        "abs": lambda z, w: (z * w).abs(),
        "exp": lambda z, w: torch.exp(z).real * w.real,
        "product": lambda z, w: z @ w.mH,
        "as_real": lambda z, w: torch.view_as_real(z).relu().sum(-1) * torch.view_as_real(w).amax(-1),
    },
    vary="one_at_a_time",
    grad=True,
    require={"all": NO_GRAPH_BREAKS},
)
def test_gradient(z, w, function):
    return function(z, w)


@case(
    x=tensor(4, 20),
    y=tensor(4, 20),
    function={
        "complex": lambda x, y: torch.complex(x.sin(), y).abs(),
        "polar": lambda x, y: torch.view_as_real(torch.polar(x.abs(), y)),
        "as_complex": lambda x, y: torch.view_as_complex(torch.stack([x, y], -1)).conj().imag,
        "rotary": lambda x, y: torch.view_as_real(
            torch.view_as_complex(x.reshape(4, 10, 2)) * torch.polar(torch.ones_like(y[:, :10]), y[:, :10])
        ).flatten(1),
    },
    grad=True,
    require={"all": NO_GRAPH_BREAKS},
    numerics={
        "for": {
            "polar": {"without": {"denormals": "the gradient divides by them"}},
            "as_complex": {"fill": {"gradient of x": "the imaginary part does not depend on x"}},
        }
    },
)
def test_of_reals(x, y, function):
    return function(x, y)
