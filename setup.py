"""What pyproject.toml cannot say: URLs, a long description whose links work elsewhere, and pages inside the package."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "ci"))

import project_page  # noqa: E402  # after the line above

REPOSITORY = project_page.repository(ROOT)
#: The pages beside docs/. conformance/documentation.py has the same list.
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
#: Pages about the cases: they come with these, in `conformance-suite`. suite/backend.py has the same.
OF_THE_CASES = ("known-bugs.md", "changes-*.md", "flip.md", "kinds.md", "missed-optimisations.md")


class BuildWithPages(build_py):
    """Puts the pages below conformance/docs. An editable install reads them where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        pages = {Path(name): Path(name) for name in BESIDE}
        pages |= {path: path.relative_to("docs") for path in Path("docs").rglob("*.md")}
        pages = {path: name for path, name in pages.items() if not any(map(name.match, OF_THE_CASES))}
        for source, name in pages.items():
            target = Path(self.build_lib, "conformance", "docs", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


setup(
    long_description=project_page.description(ROOT / "README.md", REPOSITORY),
    long_description_content_type="text/markdown",
    project_urls=project_page.urls(REPOSITORY),
    cmdclass={"build_py": BuildWithPages},
)
