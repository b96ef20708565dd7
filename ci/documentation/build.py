#!/usr/bin/env python3
"""Builds the documentation as a site: `ci/tox -e docs -- -o site`, or `python ci/documentation/build.py -o site`.

The pages are README.md, docs/ and others of the repository. The build adds what it makes itself: the reference of
public names from docstrings, that of commands and options from the parsers, examples that it executes, and screenshots
of a report that it makes. A link that leads nowhere, and an example that fails, end the build.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import example_report
import pages
import reference

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("site"), help="the folder of the site; default: site")
    parser.add_argument(
        "--without-screenshots", action="store_true", help="make no screenshots: they need playwright and a Chromium"
    )
    parser.add_argument(
        "--run", action="append", default=[], metavar="RUN", help="a run's folder for the example report"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        for name in ("_static", "_extra"):
            (source / name).mkdir(parents=True)
        shutil.copy2(HERE / "conf.py", source)
        (source / "checkout").symlink_to(pages.ROOT)  # the examples run there
        pages.write_pages(source)
        reference.write_reference(source)
        example_report.write_example(source, options.run, screenshots=not options.without_screenshots)
        command = ["-W", "--keep-going", "-q", "-b", "html", source, Path(folder, "html")]
        if status := subprocess.run([sys.executable, "-m", "sphinx", *command], check=False).returncode:
            return status
        shutil.rmtree(options.output, ignore_errors=True)
        shutil.copytree(Path(folder, "html"), options.output)
    print(f"{options.output / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
