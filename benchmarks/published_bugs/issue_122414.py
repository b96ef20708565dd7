"""A module that is in evaluation when it is compiled gives one that says it trains."""

import torch

if torch.compile(torch.nn.Linear(2, 2).eval()).training:
    raise AssertionError("training is True")
