"""Two rows of one base go into operators that change them: compiled code changes a copy."""

import torch


@torch.library.custom_op("published::add_both", mutates_args={"first", "second"})
def add_both(first: torch.Tensor, second: torch.Tensor) -> None:
    first.add_(1)
    second.add_(2)


@torch.library.custom_op("published::sum_into", mutates_args={"out"})
def sum_into(first: torch.Tensor, second: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(first + second)


def run(first, second, out):
    add_both(first, second)
    sum_into(first[0], second[0], out)
    return out


def called(function):
    base = torch.arange(6.0).reshape(2, 3)
    out = torch.zeros(())
    function(base[0], base[1], out)
    return base, out


torch.testing.assert_close(called(torch.compile(run, fullgraph=True)), called(run))
