"""A generator runs over a list that grows meanwhile: compiled code stops at the old end."""

import torch


def run(x):
    values = [x.sum()]

    def grow():
        for item in values:
            if len(values) < 3:
                values.append(item + 1)
            yield item

    return torch.stack(list(grow())).sum()


x = torch.ones(1)
torch.testing.assert_close(torch.compile(run, backend="eager")(x), run(x))
