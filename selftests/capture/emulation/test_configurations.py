"""Which launch configurations the calls of a case take, and what the kernels then ran."""

import types

import pytest

from conformance.capture.emulation.configurations import Configurations
from conformance.capture.emulation.extents import Extents

POINTWISE = {"grid_type": "Grid1D"}


def config(**blocks):
    return types.SimpleNamespace(kwargs=blocks)


def blocks(configurations, calls, **arguments):
    """The blocks that the first calls take."""
    return [configurations.choose(call, arguments).kwargs for call in range(calls)]


def test_first_call_takes_the_largest_blocks():
    one = Configurations([config(XBLOCK=64), config(XBLOCK=1024)], POINTWISE)
    assert blocks(one, 1, xnumel=1000) == [{"XBLOCK": 1024}]


def test_other_calls_rotate_over_the_own_configurations_with_several_programs():
    one = Configurations([config(XBLOCK=64), config(XBLOCK=1024), config(XBLOCK=256)], POINTWISE)
    assert [each["XBLOCK"] for each in blocks(one, 5, xnumel=1000)] == [1024, 64, 256, 64, 256]
    assert [each["XBLOCK"] for each in blocks(one, 4, xnumel=3000)] == [1024, 64, 256, 1024]


def test_own_configuration_with_too_many_programs_is_left_out():
    one = Configurations([config(XBLOCK=1), config(XBLOCK=1024)], POINTWISE)
    assert [each["XBLOCK"] for each in blocks(one, 3, xnumel=1000)] == [1024, 256, 512]


@pytest.mark.parametrize(
    ("elements", "wanted"), [(1, [8, 8]), (2, [1, 1]), (3, [1, 2]), (5, [2, 4]), (8, [2, 4]), (100, [8, 8])]
)
def test_smaller_blocks(elements, wanted):
    """Three parts and two, each at most twice as many; not more than the elements."""
    one = Configurations([config(XBLOCK=8)], POINTWISE)
    assert [each["XBLOCK"] for each in blocks(one, 3, xnumel=elements)] == [8, *wanted]


def test_each_axis_is_divided():
    one = Configurations([config(XBLOCK=64, YBLOCK=32)], {"grid_type": "Grid2D"})
    assert blocks(one, 4, xnumel=40, ynumel=20) == [
        {"XBLOCK": 64, "YBLOCK": 32},
        {"XBLOCK": 16, "YBLOCK": 16},
        {"XBLOCK": 32, "YBLOCK": 8},
        {"XBLOCK": 16, "YBLOCK": 16},
    ]


def test_loops_run_several_iterations():
    one = Configurations([config(XBLOCK=1, R0_BLOCK=2048)], POINTWISE)
    assert [each["R0_BLOCK"] for each in blocks(one, 3, xnumel=3, r0_numel=1025)] == [2048, 512, 1024]
    two = Configurations([config(XBLOCK=1, R0_BLOCK=8, R1_BLOCK=64)], POINTWISE)
    assert blocks(two, 2, xnumel=1, r0_numel=6, r1_numel=33)[1] == {"XBLOCK": 1, "R0_BLOCK": 2, "R1_BLOCK": 32}


@pytest.mark.parametrize(
    ("meta", "options", "wanted"),
    [
        ({"tma_min_block_sizes": {"XBLOCK": 16}}, {}, {"XBLOCK": 16, "R0_BLOCK": 8}),
        ({"min_xblock": 16}, {}, {"XBLOCK": 16, "R0_BLOCK": 8}),
        ({"min_rblock": 16}, {}, {"XBLOCK": 8, "R0_BLOCK": 16}),
        ({}, {"uses_dot": True}, {"XBLOCK": 16, "R0_BLOCK": 16}),
        ({}, {"is_fixed": True}, {"XBLOCK": 64, "R0_BLOCK": 64}),
        ({"grid_type": "FixedGrid"}, {}, {"XBLOCK": 64, "R0_BLOCK": 64}),
        ({"grid_type": "MixOrderReductionGrid"}, {}, {"XBLOCK": 64, "R0_BLOCK": 64}),
        ({"grid_type": "SplitScanGrid", "min_split_scan_rblock": 32}, {}, {"XBLOCK": 64, "R0_BLOCK": 32}),
    ],
)
def test_smallest_blocks_of_the_heuristics(meta, options, wanted):
    one = Configurations([config(XBLOCK=64, R0_BLOCK=64)], POINTWISE | meta, **options)
    assert blocks(one, 2, xnumel=30, r0_numel=30 if "SplitScanGrid" not in meta.values() else 60)[1] == wanted


def test_parts_of_a_cooperative_reduction():
    """Each program reduces a part of the elements: its loop divides that part."""
    one = Configurations([config(XBLOCK=1, R0_BLOCK=1024, RSPLIT=4)], {"grid_type": "CooperativeReductionGrid"})
    assert blocks(one, 2, xnumel=1, r0_numel=2000)[1] == {"XBLOCK": 1, "R0_BLOCK": 128, "RSPLIT": 4}


def test_configurations_of_users_rotate():
    one = Configurations([config(BLOCK=16), config(BLOCK=64), config(BLOCK=32)], {"grid_type": "PrecomputedGrid"})
    assert [each["BLOCK"] for each in blocks(one, 5)] == [64, 16, 32, 64, 16]


def extent(*launches):
    extents = Extents()
    for launch in launches:
        extents.of("kernel", "<kernel 1234>").add(*launch)
    return extents.report()


def test_extents_are_the_most_of_all_launches():
    report = extent((1, {7: 1}, 300, 1025), (5, {7: 3}, 300, 1025))
    assert (report.kernels, report.shortfalls) == (["kernel: 5 programs, 3 iterations"], [])


@pytest.mark.parametrize(
    ("launch", "wanted"),
    [
        ((1, {}, 20, 0), "one program for 20 elements"),
        ((1, {}, 1, 0), ""),
        ((1, {}, 0, 0), ""),
        ((2, {7: 3, 9: 1}, 20, 50), "one iteration for 50 elements"),
        ((2, {7: 1}, 20, 1), ""),
        ((2, {7: 2}, 20, 2), ""),
        ((2, {}, 20, 50), ""),
        ((1, {7: 0}, 20, 50), "one program for 20 elements and one iteration for 50 elements"),
    ],
)
def test_what_ran_too_little(launch, wanted):
    assert extent(launch).shortfalls == ([f"kernel ran {wanted}"] if wanted else [])
