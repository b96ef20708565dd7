"""recommender: a click model as DLRM: tables of embeddings, products of each two features, and two MLPs.

"Deep Learning Recommendation Model for Personalization and Recommendation Systems", arXiv 1906.00091.
"""

import torch
from torch import nn

from conformance import case, group, module, tensor

#: Rows of each table, and how the rows of a bag become one vector.
TABLES = {31: "sum", 67: "mean", 17: "sum"}
DENSE, WIDTH = 13, 16


class Recommender(nn.Module):
    """The logit of a click, from dense features and from a bag of rows of each table."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, WIDTH, mode=mode) for rows, mode in TABLES.items())
        self.bottom = nn.Sequential(nn.Linear(DENSE, 24), nn.SiLU(), nn.Linear(24, WIDTH), nn.SiLU())
        features = 1 + len(TABLES)
        self.top = nn.Sequential(nn.Linear(WIDTH + features * (features - 1) // 2, 24), nn.SiLU(), nn.Linear(24, 1))
        self.register_buffer("pairs", torch.tril_indices(features, features, offset=-1))

    def forward(self, dense, bags):
        x = self.bottom(dense)
        features = torch.stack([x, *(table(bag) for table, bag in zip(self.tables, bags, strict=True))], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], dim=1)).squeeze(1)


def bags():
    """The indices of each table: (batch, rows of a bag)."""
    return group([tensor(7, size, dtype="i64", low=0, high=rows) for size, rows in zip((3, 5, 1), TABLES, strict=True)])


# ReLU jumps: a number near 0 may have another sign in bfloat16. So the MLPs have SiLU.
@case(
    net=module(Recommender),
    dense=tensor(7, DENSE),
    bags=bags(),
    dtype=["f32", "bf16"],
    mode=["plain", "autocast"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={
        "all": {"graph_breaks": 0, "fallbacks": ["aten._embedding_bag_forward_only"] * 3, "extern.bmm": 1},
        "plain": {"bytes": "<=2.2", "buffers": "<=10"},
        "cpu": {"kernels": "<=8"},
        "cpu f32 static plain": {"vectorised": "yes"},
        "gpu plain": {"kernels": "<=10"},
    },
)
def test_logits(net, dense, bags):
    return net(dense, bags)


@case(
    net=module(Recommender),
    dense=tensor(7, DENSE),
    bags=bags(),
    clicked=tensor(7, low=0, high=1),
    grad="net",
    mode=["plain", "autocast"],
    require={
        "all": {"graph_breaks": 0, "fallbacks.aten._embedding_bag": 3, "fallbacks.aten._embedding_bag_backward": 3}
        | {"extern.bmm": 3, "bytes": "<=1.8"},
        "plain": {"buffers": "<=27"},
        "cpu": {"kernels": "<=16"},
        "cpu plain": {"vectorised": "yes"},
        "gpu plain": {"kernels": "<=23"},
    },
)
def test_click_loss(net, dense, bags, clicked):
    return nn.functional.binary_cross_entropy_with_logits(net(dense, bags), clicked)
