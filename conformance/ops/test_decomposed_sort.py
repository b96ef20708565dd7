"""decomposed_sort: medians, modes and the k largest by a sort that Inductor generates, with decompose_sort_ops.

torch 2.11 lacks this option, and calls the library.
"""

import torch

from conformance import case, tensor

NO_EXTERN = {"extern": [], "graph_breaks": 0}
DECOMPOSED = {"triton.decompose_sort_ops": True} if torch.__version__ >= "2.13" else {}

#: Values, and not places: which of equal elements is chosen is not defined.
CHOSEN = {
    "median": lambda x: x.median(-1, keepdim=True).values + x,
    "median_of_all": lambda x: x.median() + x,
    "largest": lambda x: x.topk(3, 0).values,
    "third": lambda x: x.kthvalue(3, -1, keepdim=True).values + x,
    "mode": lambda x: x.mode(-1).values,
    "mode_of_columns": lambda x: x.mode(0, keepdim=True).values,
}


@case(
    x=tensor(6, 20),
    chosen=CHOSEN,
    config={"decomposed": DECOMPOSED},
    require={"all": NO_EXTERN, "gpu torch>=2.13": {"fallbacks": []}},
    numerics={"exact": True},
)
def test_chosen(x, chosen):
    return chosen(x)
