"""Garbage collection: later than by default, and still a full one from time to time."""

from __future__ import annotations

import gc

import pytest

from conformance.compiler import garbage_collection


class Node:
    collected = 0

    def __init__(self):
        self.itself = self

    def __del__(self):
        Node.collected += 1


@pytest.fixture
def usual_settings():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_collections_start_later_and_are_on_again(usual_settings):
    with garbage_collection.off_while_loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_threshold()[0] == garbage_collection.THRESHOLD


def test_items_end_with_a_full_collection_if_it_is_due(usual_settings):
    gc.set_threshold(garbage_collection.THRESHOLD, 10, 10)
    gc.collect()
    Node()
    gc.collect(1)  # as Dynamo does, after the node was made
    for _ in range(garbage_collection.FULL_AFTER - 2):
        gc.collect(1)
    garbage_collection.collect_if_due()
    assert gc.get_count()[2] == garbage_collection.FULL_AFTER - 1
    gc.collect(1)
    garbage_collection.collect_if_due()
    assert gc.get_count()[2] == 0
    assert Node.collected == 1


def test_at_the_end_objects_stay_frozen_unless_nanobind_reports_them_as_leaks(usual_settings):
    gc.freeze()
    garbage_collection._unfreeze_for_nanobind()
    assert gc.get_freeze_count()
    metaclass = type("nb_type_0", (type,), {"__module__": "nanobind"})
    garbage_collection._unfreeze_for_nanobind()
    assert not gc.get_freeze_count()
    del metaclass
