"""The templates of the report."""

from __future__ import annotations

from collections.abc import Callable

import jinja2


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
