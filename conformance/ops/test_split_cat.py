"""split_cat: options with which Inductor removes splits whose pieces are joined again.

`pre_grad_fusion_options` names passes for Dynamo's graph, `post_grad_fusion_options` passes for the graph of ATen
operators. The normalisation passes give each operator the same form of arguments; the others need them.
torch/_inductor/fx_passes/split_cat.py has all. They know nothing of devices.
"""

import torch

from conformance import case, tensor

ONLY = {"cpu_avx512": "the passes are the same for each device"}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}


def before_autograd(*names, **options):
    """These passes after the normalisation. `options`: how many pieces a pass needs."""
    return {
        "pre_grad_fusion_options": {"normalization_pass": {}} | {f"{name}_pass": options for name in names},
        "post_grad_fusion_options": {},
    }


def after_autograd(*names, **options):
    return {
        "pre_grad_fusion_options": {},
        "post_grad_fusion_options": {"normalization_aten_pass": {}} | {f"{name}_pass": options for name in names},
    }


def passed(**passes):
    """Each label's graph is changed by this pass."""
    return {"all": INDUCTOR_ONLY} | {label: {f"patterns.{name}_pass": ">=1"} for label, name in passes.items()}


def copied(tensors):
    """New tensors, where a pass makes a view of what was a copy."""
    return [each.contiguous() * 2 for each in tensors]


def split_twice(x):
    first, second = torch.split(x, [8, 16], 1)
    return first * 2, *[piece * 3 for piece in torch.split(second, [4, 12], 1)]


def split_into_one(x):
    return torch.split(x, 24, 1)[0] * 2


def squeezed(x):
    return [torch.squeeze(row, 0) * 2 for row in torch.split(x, 1, 0)]


def joined_with_others(x):
    a, b, c, d = torch.split(x, [4, 4, 8, 8], 1)
    others = x[:, :3] * 2
    return torch.cat([a, b, others], 1), torch.cat([others, c, d], 1)


def stacked(x):
    a, b, c, d = torch.split(x, [4, 4, 8, 8], 1)
    return copied([torch.stack([a, b], 0), torch.cat([x[:, :3] * 2, c, d], 1)])


def used_elsewhere(x):
    a, b, c, d = torch.split(x, [4, 4, 8, 8], 1)
    return torch.cat([a, b], 1) * 2, c * 3, d + c


def stacked_with_others(x):
    others = x[:, :8] * 2
    return torch.stack([others, *torch.split(x, 8, 1), others + 1], 0) * 2


def joined_in_another_dimension(x):
    return torch.cat(torch.split(x, 8, 1), 0) * 2


def joined_with_shorter(x):
    return torch.cat([x[:2, :8] * 2, *torch.split(x, 8, 1)], 0) * 2


@case(
    x=tensor(6, 24),
    form={
        "split_twice": split_twice,
        "split_into_one": split_into_one,
        "squeezed": squeezed,
        "joined_with_others": joined_with_others,
        "stacked": stacked,
        "used_elsewhere": used_elsewhere,
        "stacked_with_others": stacked_with_others,
        "joined_in_another_dimension": joined_in_another_dimension,
        "joined_with_shorter": joined_with_shorter,
    },
    config={"passes": before_autograd("merge_splits", "remove_split_with_size_one", "split_cat")},
    only=ONLY,
    require=passed(
        split_twice="merge_splits",
        split_into_one="remove_split_with_size_one",
        squeezed="split_cat",
        joined_with_others="unbind_stack",  # the name of its counter
        stacked="unbind_stack",
        used_elsewhere="unbind_stack",
        stacked_with_others="unbind_stack",
        joined_in_another_dimension="unbind_stack",
    ),
    numerics={"exact": True},
)
def test_split(x, form):
    return form(x)


def neighbours_joined(x):
    a, b, c, d = torch.split(x, [4, 4, 8, 8], 1)
    return torch.cat([a, b], 1) * 2, c * 2, d * 2


def joined_and_used(x):
    pieces = torch.split(x, [4, 4, 8, 8], 1)
    return torch.cat(pieces, 1) * 2, torch.cat(pieces[1:3], 1) * 2, pieces[1] * 2


@case(
    x=tensor(6, 24),
    form={"neighbours": neighbours_joined, "all_joined": joined_and_used},
    config={"passes": before_autograd("merge_getitem_cat", "mutate_cat")},
    only=ONLY,
    require=passed(neighbours="merge_getitem_cat", all_joined="mutate_cat"),
    numerics={"exact": True},
)
def test_neighbours(x, form):
    return form(x)


@case(
    x=tensor(4, 6, 8),
    join={
        "stack": lambda x: copied([torch.stack(torch.unbind(x, 1), 1)]),
        "cat": lambda x: copied([torch.cat(torch.unbind(x, 1), 1)]),
    },
    config={"passes": before_autograd("unbind_stack")},
    only=ONLY,
    require=passed(stack="unbind_stack"),
    numerics={"exact": True},
)
def test_unbind(x, join):
    return join(x)


# The result of a stack is a new tensor.
@case(
    x=tensor(4, 6, 8),
    config={"passes": before_autograd("unbind_stack")},
    only=ONLY,
    require={"all": {"patterns.unbind_stack_pass": 1}},
    numerics={"exact": True},
)
def test_new_tensor(x):
    return torch.stack(torch.unbind(x, 1), 1)


def pieces_joined(x):
    pieces = torch.split(x, 4, 2)
    return copied([torch.cat([x[:, :, :3] * 2, *pieces[:4]], 2), torch.cat(pieces[1:4], 2)])


def rows_joined(x):
    rows = torch.unbind(x, 1)
    return copied([torch.cat([*rows[:4], rows[0] * 2], 1), torch.cat(rows[1:4], 1)])


def pieces_stacked(x):
    pieces = torch.split(x, 4, 2)
    return copied([torch.stack(pieces[:4], 0)])


def pieces_stacked_with_others(x):
    pieces = torch.split(x, 4, 2)
    return copied([torch.stack([*pieces[:4], pieces[0] * 2], 0)])


def rows_stacked(x):
    return copied([torch.stack(torch.unbind(x, 1)[:4], 1)])


def rows_stacked_with_others(x):
    rows = torch.unbind(x, 1)
    return copied([torch.stack([*rows[:4], rows[0] * 2], 0)])


def pieces_reshaped(x):
    return copied([torch.stack([torch.reshape(piece, (4, 6, 2, 2)) for piece in torch.split(x, 4, 2)], 0)])


def pieces_reshaped_with_others(x):
    pieces = [torch.reshape(piece, (4, 6, 2, 2)) for piece in torch.split(x, 4, 2)[:4]]
    return copied([torch.stack([pieces[0] * 2, *pieces], 0)])


@case(
    x=tensor(4, 6, 24, dtype="i32"),
    form={
        "pieces_joined": pieces_joined,
        "rows_joined": rows_joined,
        "pieces_stacked": pieces_stacked,
        "pieces_stacked_with_others": pieces_stacked_with_others,
        "rows_stacked": rows_stacked,
        "rows_stacked_with_others": rows_stacked_with_others,
        "pieces_reshaped": pieces_reshaped,
        "pieces_reshaped_with_others": pieces_reshaped_with_others,
    },
    config={
        "passes": before_autograd(
            "split_cat_to_slices",
            "unbind_cat_to_view",
            "split_stack_to_cats",
            "unbind_stack_to_slices",
            "move_reshape_out_of_split_stack",
            threshold_to_cat=2,
        )
    },
    only=ONLY,
    require=passed(
        pieces_joined="split_cat_to_slices",
        rows_joined="unbind_cat_to_view",
        pieces_stacked="split_stack_to_cats",
        rows_stacked="unbind_stack_to_slices",
    ),
    numerics={"exact": True},
)
def test_slices(x, form):
    return form(x)


@case(
    x=tensor(4, 3, 5),
    y=tensor(4, 3, 5, 2),
    config={"passes": before_autograd("einsum_to_pointwise")},
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"kernels": 1, "patterns.einsum_to_pointwise_pass": 1}},
    numerics={"without": {"huge": "whether a sum overflows depends on its order"}},
)
def test_einsum(x, y):
    return torch.functional.einsum("bni, bnio -> bno", x, y) + 1


def pieces_of_aten(x):
    pieces = torch.split(torch.cat([x[:, 0], x[:, 1]], 1), 4, 1)
    return torch.cat([torch.cat([*pieces], 1), torch.cat([pieces[0], x[:, 2]], 1)], 1)


def some_pieces_of_aten(x):
    pieces = torch.split(x[:, 0], 4, 1)
    return torch.cat([x[:, 1], *pieces[:4], x[:, 2]], 1)


def repeated_piece_of_aten(x):
    pieces = torch.split(x[:, 0], 4, 1)
    return torch.cat([*pieces[:5], pieces[0]], 1)


def rows_of_aten(x):
    rows = [x[:, i] for i in range(6)]
    return copied([torch.cat(rows, 1), torch.cat(rows[:5], 1), torch.cat(rows[::2], 1)])


def views_of_aten(x):
    views = [piece.view(6, 24) for piece in torch.split(x, 1)]
    first = views[0].clone()
    return torch.cat([first, torch.cat(views, 1)], 1)


def unequal_pieces_of_aten(x):
    return [piece * 2 for piece in torch.split(x[:, 0], 10, 1)]


@case(
    x=tensor(4, 6, 24),
    form={
        "pieces": pieces_of_aten,
        "some_pieces": some_pieces_of_aten,
        "repeated_piece": repeated_piece_of_aten,
        "rows": rows_of_aten,
        "views": views_of_aten,
        "unequal_pieces": unequal_pieces_of_aten,
        "given_sizes": lambda x: [piece * 2 for piece in torch.split(x[:, 0], [10, 14], -1)],
        "stacked_rows": lambda x: torch.stack([x[:, i] for i in range(6)], 1) * 2,
    },
    config={
        "passes": after_autograd(
            "split_cat_aten", "select_cat_aten", "move_view_after_cat_aten", "unbind_stack_aten", threshold_to_cat=3
        )
    },
    only=ONLY,
    require=passed(
        pieces="split_cat_aten", some_pieces="split_cat_aten", rows="select_cat_aten", views="move_view_after_cat_aten"
    ),
    numerics={"exact": True},
)
def test_aten(x, form):
    return form(x)


def methods(x):
    y = x[None]
    return (y.squeeze(0) * 2, y.squeeze(dim=(0,)) * 3, y.squeeze() * 4, x.reshape(4, -1) * 2)


# Arguments by name and by position, methods and functions: the normalisation must not change what they mean.
@case(
    x=tensor(6, 24),
    form={
        "cat": lambda x: torch.cat([torch.clamp(x[:3], -1, 1), torch.clamp(x[3:], min=-1)], axis=0),
        "squeeze": lambda x: (torch.squeeze(x.unsqueeze(0), 0), torch.squeeze(x.unsqueeze(0)) * 2),
        "stack": lambda x: (torch.stack([x, x], -1), torch.stack([x, x * 2])),
        "methods": methods,
        "split": lambda x: (x.split(5, -1)[1] * 2, torch.reshape(x, (4, 36)) * 2, x.detach().clamp(max=1)),
    },
    config={"passes": before_autograd()},
    only=ONLY,
    require={"all": INDUCTOR_ONLY},
    numerics={"exact": True},
)
def test_arguments(x, form):
    return form(x)
