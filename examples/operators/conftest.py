"""The top conftest: pytest allows `pytest_plugins` only here."""

pytest_plugins = ["conformance.plugin"]
