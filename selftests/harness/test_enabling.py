"""What on a command line enables the plugin before anything imports torch."""

from argparse import Namespace

import pytest

from conformance.harness.configuration.pytest_options import is_named_by_option


@pytest.mark.parametrize(
    ("options", "enabled"),
    [
        ({"pyargs": True, "file_or_dir": ["conformance.ops"]}, True),
        ({"pyargs": True, "file_or_dir": ["mine", "conformance.ops.test_flip::test_hflip"]}, True),
        ({"pyargs": True, "file_or_dir": ["conformance_of_others.x"]}, False),
        ({"pyargs": False, "file_or_dir": ["conformance.ops"]}, False),
        ({"plugins": ["conformance.plugin"]}, True),
        ({}, False),
    ],
)
def test_what_enables_the_plugin(options, enabled):
    assert is_named_by_option(Namespace(**options)) is enabled
