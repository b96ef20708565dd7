"""recurrent: cells of recurrent networks, whose gates are one kernel after two matrix products, and sequences."""

import torch

from conformance import case, tensor

NO_GRAPH_BREAKS = {"graph_breaks": 0}


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


# x: (batch, features). h, c: (batch, hidden). w: (4 * hidden, features). u: (4 * hidden, hidden).
@case(
    x=tensor(5, 6),
    h=tensor(5, 8),
    c=tensor(5, 8),
    w=tensor(32, 6),
    u=tensor(32, 8),
    cell={"lstm": lstm, "gru": gru, "minimal": minimal},
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    require={"all": NO_GRAPH_BREAKS | {"fallbacks": []}},
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
    require={"all": NO_GRAPH_BREAKS | {"fallbacks": []}},
    numerics={"factor": 8, "reason": "the gradient of a saturated gate is the difference of two nearly equal numbers"},
)
def test_cell_backward(x, h, c, w, u):
    return lstm(x, h, c, w, u)


# Three unrolled steps: operators that do not need the state before are fused with those that do.
@case(
    x=tensor(3, 5, 6),
    h=tensor(5, 8),
    c=tensor(5, 8),
    w=tensor(32, 6),
    u=tensor(32, 8),
    require={"all": NO_GRAPH_BREAKS | {"fallbacks": []}},
)
def test_unrolled(x, h, c, w, u):
    for step in x:
        h, c = lstm(step, h, c, w, u)
    return h, c
