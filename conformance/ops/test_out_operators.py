"""out_operators: operators of a library with a form that writes into given tensors. Inductor calls that form.

So Inductor allocates the results, and can use their memory again.
"""

import functools

import torch

from conformance import case, tensor

#: Before torch 2.13, Inductor does not look for the form.
_ONE_OF_EACH = "what calls an operator differs little between targets of one device type"
ONLY = {"cpu_avx2 torch>=2.13": _ONE_OF_EACH, "cuda_sm90 torch>=2.13": _ONE_OF_EACH}


@functools.cache
def define_operators():
    """Defines the operators, each with the form `out`. The cache keeps the library, which holds them."""
    library = torch.library.Library("conformance_out_operators", "DEF")
    define = functools.partial(_define, library)
    define("scaled", "Tensor x, float factor", ["out"], lambda x, factor: x * factor)
    define("named", "Tensor x", ["result"], lambda x: x * 2)
    define("extremes", "Tensor x, int dim", ["low", "high"], lambda x, dim: (x.amin(dim), x.amax(dim)))
    return library


def _define(library, name, arguments, outputs, function):
    """Defines one operator, and the form that writes into arguments with the names `outputs`."""
    several = len(outputs) > 1

    def writing(*arguments, **tensors):
        results = function(*arguments)
        for written, result in zip(tensors.values(), results if several else [results], strict=True):
            written.copy_(result)
        return tuple(tensors.values()) if several else written

    written = [f"Tensor({letter}!)" for letter in "abc"[: len(outputs)]]
    given = ", ".join(f"{kind} {output}" for kind, output in zip(written, outputs, strict=True))
    library.define(f"{name}({arguments}) -> ({', '.join('Tensor' for _ in outputs)})")
    library.define(f"{name}.out({arguments}, *, {given}) -> ({', '.join(written)})", tags=(torch.Tag.out,))
    library.impl(name, function, "CompositeExplicitAutograd")
    library.impl(f"{name}.out", writing, "CompositeExplicitAutograd")
    torch.library.register_fake(f"conformance_out_operators::{name}", function, lib=library)


# The sine replaces the first result in its memory.
@case(
    x=tensor(8, 16),
    prepare=define_operators,
    only=ONLY,
    require={"all": {"fallbacks": [], "graph_breaks": 0, "kernels": 2, "buffers.in_place": 1}},
)
def test_one_result(x):
    operators = torch.ops.conformance_out_operators
    return operators.scaled(operators.scaled(x.cos(), 0.5).sin(), 2.0)


@case(
    x=tensor(8, 16),
    prepare=define_operators,
    only=ONLY,
    require={"all": {"extern.AllocatingMultiOutput": 2, "graph_breaks": 0, "kernels": 2}},
)
def test_two_results(x):
    low, high = torch.ops.conformance_out_operators.extremes(x.cos(), 1)
    return high - low


# The form's argument is called `result`.
@case(x=tensor(8, 16), prepare=define_operators, only=ONLY, require={"all": {"fallbacks": [], "graph_breaks": 0}})
def test_argument_of_another_name(x):
    return torch.ops.conformance_out_operators.named(x.cos()) + 1
