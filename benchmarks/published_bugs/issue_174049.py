"""Attention by hand, scaled by a tensor and masked, is replaced by a kernel that answers otherwise."""

import torch


def attention(q, k, v, mask, scale):
    return torch.softmax(q @ k.mT / scale + mask, dim=-1) @ v


torch.manual_seed(0)
q, k, v = (torch.randn(2, 4, 16, 16) for _ in range(3))
arguments = q, k, v, torch.randn(16, 16), torch.tensor(2.0)
torch.testing.assert_close(torch.compile(attention)(*arguments), attention(*arguments))
