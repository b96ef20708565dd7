"""Sphinx's configuration of the documentation site. build.py makes the sources, and copies this file beside them."""

import conformance

project = "conformance"
author = "the conformance developers"
version = release = conformance.__version__
extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.programoutput"]
myst_heading_anchors = 4
myst_enable_extensions = ["linkify"]
smartquotes = False  # "--device" is an option, and not a dash
highlight_language = "text"  # of blocks that name no language: most are of a terminal
suppress_warnings = ["myst.header"]  # a page may begin with a heading of the second level
exclude_patterns = ["_files", "checkout"]
html_theme = "furo"
html_title = f"conformance {release}"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_show_sphinx = False
programoutput_prompt_template = "$ {command}\n{output}"
