"""The templates of the report."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

import jinja2


def asset(name: str) -> str:
    """The text of a file beside the templates, such as a style or a script."""
    return resources.files("conformance.report").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def template(name: str, **filters: Callable[[str], str]) -> jinja2.Template:
    """Returns a template of this package. Values in HTML are escaped. An undefined name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("conformance.report"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(name)
