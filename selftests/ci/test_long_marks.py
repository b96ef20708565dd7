"""Marks `long`: each says why its test cannot be quick. Collecting one without a reason ends the run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

REASON = "it starts two processes that import torch"
WITHOUT_A_REASON = [
    pytest.mark.long,
    pytest.mark.long(""),
    pytest.mark.long("it is"),
    pytest.mark.long(8),
    pytest.mark.long(reason=REASON),
    pytest.mark.long(REASON, REASON),
]


@pytest.fixture
def collected(request):
    """Calls the hook of selftests/conftest.py for an item that has a mark."""
    (conftest,) = {
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(request.config.rootpath / "selftests" / "conftest.py")
    }

    def call(mark):
        marks = {"long": [mark.mark]}
        conftest.pytest_itemcollected(SimpleNamespace(nodeid="test_it.py::test_it", iter_markers=marks.__getitem__))

    return call


def test_a_reason(collected):
    collected(pytest.mark.long(REASON))


@pytest.mark.parametrize("mark", WITHOUT_A_REASON, ids=lambda mark: repr((mark.args, mark.kwargs)))
def test_a_mark_without_a_reason_is_refused(collected, mark):
    with pytest.raises(pytest.UsageError, match=r'test_it.py::test_it: write @pytest.mark.long\("why'):
        collected(mark)
