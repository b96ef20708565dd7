"""What a generated graph hands to torch's runtime besides its code: two captures with one code can differ in it."""

from __future__ import annotations

import torch
from capturing import captured

from conformance import tensor
from conformance.harness.reuse.numerics_digest import _stable


def metadata(function):
    [module] = captured(function, "cpu_avx2", x=tensor(20)).modules
    return module.observed["runtime"], _stable(module.code)


def test_the_bytes_of_constants():
    def counted(first):
        return lambda x: x + torch.tensor([first, *range(19)])

    (one, code), (other, same_code), (again, _) = (metadata(counted(first)) for first in (1.0, 2.0, 1.0))
    assert code == same_code
    assert list(one["constants"]) == list(other["constants"]) != []
    assert one["constants"] != other["constants"]
    assert one == again


def test_the_inputs_that_change():
    def changes(x):
        x.add_(1)
        return x * 2

    assert metadata(changes)[0]["changed"][1] == [0]
    assert metadata(lambda x: x * 2)[0]["changed"] == [[], []]


def test_the_strides_of_outputs():
    assert metadata(lambda x: (x * 2).view(4, 5))[0]["outputs"] == ["[5, 1]"]
