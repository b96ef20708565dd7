"""An attribute of a class is changed, and the compiled function keeps the first value."""

import torch


class Settings:
    factor = 1.0


def scaled(x):
    return x * Settings.factor


compiled = torch.compile(scaled)
x = torch.tensor([4.0])
for factor in (1.0, 10.0):
    Settings.factor = factor
    torch.testing.assert_close(compiled(x), scaled(x))
