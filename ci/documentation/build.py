#!/usr/bin/env python3
"""Builds the documentation as a site: `ci/tox -e docs -- -o site`, or `python ci/documentation/build.py -o site`.

The pages are README.md, docs/ and others of the repository. The build adds what it makes itself: the home page, the
reference of public names from docstrings, that of commands and options from the parsers, examples that it executes, an
example of a report from kept runs with screenshots, and the pages of what is stored: known bugs, and changes between
torch releases.
A link that leads nowhere, an example that fails, and a finding of axe end the build.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import accessibility
import bugs_page
import built_links
import example_report
import home_page
import pages
import reference
import stored_pages

HERE = Path(__file__).resolve().parent
_BEGUN = time.monotonic()


def _step(name: str) -> None:
    print(f"{time.monotonic() - _BEGUN:5.0f} s  {name}", flush=True)


def _sphinx(source: Path, html: Path) -> int:
    command = ["-W", "--keep-going", "-q", "-j", "2", "-b", "html", source, html]
    return subprocess.run([sys.executable, "-m", "sphinx", *command], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("site"), help="the folder of the site; default: site")
    parser.add_argument(
        "--without-screenshots",
        action="store_true",
        help="make no screenshots, and do not check the pages with axe: both need playwright and a Chromium",
    )
    parser.add_argument(
        "--copies",
        action="store_true",
        help="take the pages of what is stored from docs/, and do not compute them, which takes minutes",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        metavar="RUN",
        help="a run's folder for the example report, instead of the runs in ci/documentation/example_runs/",
    )
    parser.add_argument(
        "--matrix",
        type=Path,
        metavar="FOLDER",
        help="also publish this folder, which ci/report.py wrote",
    )
    parser.add_argument(
        "--pictures",
        action="store_true",
        help="also copy the screenshots to docs/images/",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        for name in ("_static", "_extra"):
            (source / name).mkdir(parents=True)
        shutil.copy2(HERE / "conf.py", source)
        (source / "checkout").symlink_to(pages.ROOT)  # the examples run there
        pages.write_pages(source)
        bugs_page.write_page(source)
        reference.write_reference(source, executes=False)
        example_report.write_page(source)
        home_page.write_page(source)
        # What is wrong in a page ends the build now. Afterwards Sphinx reads only what is written anew.
        html = Path(folder, "html")
        _step("pages")
        if status := _sphinx(source, html):
            return status
        _step("Sphinx")
        if not options.copies:
            stored_pages.write_pages(source)
        _step("stored pages")
        reference.write_reference(source)
        if options.matrix:
            shutil.copytree(options.matrix, source / "_extra" / "matrix")
        example_report.write_example(source, options.run, screenshots=not options.without_screenshots)
        home_page.write_page(source)
        _step("example of a report")
        if status := _sphinx(source, html):
            return status
        _step("Sphinx, with commands")
        site = html.resolve()
        wrong = list(built_links.problems(site))
        if not options.without_screenshots:
            wrong += accessibility.problems(site)
        _step("links and axe")
        if wrong:
            print("\n".join(wrong), file=sys.stderr)
            return 1
        if options.pictures:
            for each in example_report.shown_in_docs():
                shutil.copy2(source / "images" / each.file, pages.ROOT / "docs" / "images")
        shutil.rmtree(options.output, ignore_errors=True)
        shutil.copytree(html, options.output)
    print(f"{options.output / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
