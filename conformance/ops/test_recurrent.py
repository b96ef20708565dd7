"""recurrent: the cells of recurrent networks, whose gates are one kernel between two matrix products, and sequences."""

import torch

from conformance import case, tensor

OVERFLOW = {"without": {"huge": "sums of the largest numbers overflow earlier or later, by their order"}}
GRAPH = {"graph_breaks": 0}


def lstm(x, h, c, w, u):
    i, f, g, o = (x @ w.T + h @ u.T).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(x, h, c, w, u):
    r, z, _, _ = (x @ w.T + h @ u.T).sigmoid().chunk(4, -1)
    n = (x @ w[:8].T + r * (h @ u[:8].T)).tanh()
    return (1 - z) * n + z * h


def minimal(x, h, c, w, u):
    z = (x @ w[:8].T).sigmoid()
    return torch.lerp(h, (x @ w[8:16].T).tanh(), z)


# x: (batch, features), h and c: (batch, hidden), w and u: (4 gates of hidden, features or hidden)
@case(
    x=tensor(5, 6),
    h=tensor(5, 8),
    c=tensor(5, 8),
    w=tensor(32, 6),
    u=tensor(32, 8),
    cell={"lstm": lstm, "gru": gru, "minimal": minimal},
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    require={"all": GRAPH | {"fallbacks": []}},
    numerics=OVERFLOW,
)
def test_cell(x, h, c, w, u, cell):
    return cell(x, h, c, w, u)


@case(
    x=tensor(5, 6),
    h=tensor(5, 8),
    c=tensor(5, 8),
    w=tensor(32, 6),
    u=tensor(32, 8),
    grad=True,
    require={"all": GRAPH | {"fallbacks": []}},
    numerics=OVERFLOW,
)
def test_cell_backward(x, h, c, w, u):
    return lstm(x, h, c, w, u)


# Three steps, unrolled: what does not depend on the state before is fused with what does.
@case(
    x=tensor(3, 5, 6),
    h=tensor(5, 8),
    c=tensor(5, 8),
    w=tensor(32, 6),
    u=tensor(32, 8),
    require={"all": GRAPH | {"fallbacks": []}},
    numerics=OVERFLOW,
)
def test_unrolled(x, h, c, w, u):
    for step in x:
        h, c = lstm(step, h, c, w, u)
    return h, c
