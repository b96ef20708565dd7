"""Loads the plugin for this repository's own tests."""

pytest_plugins = ["conformance.plugin"]
