"""What pyproject.toml cannot say: URLs, a long description whose links work elsewhere, pages inside the package, and
which files and requirements an installation has: ci/building/root_backend.py says when which.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "ci"))

import project_page  # noqa: E402

import parts  # noqa: E402 - after the line above

REPOSITORY = project_page.repository(ROOT)
#: The pages beside docs/. conformance/documentation.py has the same list.
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
#: Pages about the cases: they come with these, in `conformance-suite`. suite/backend.py has the same.
OF_THE_CASES = ("known-bugs.md", "changes-*.md", "flip.md", "kinds.md", "missed-optimisations.md")


#: What the suite requires beside the generator.
REQUIRED = (
    "pytest>=9",  # subtests
    "pytest-xdist>=3.8",
    "expecttest>=0.3",
    "filelock",
    "numpy",  # without it, torch warns in many places
    "packaging",
    "pygments>=2.17",  # colours of code: rich needs it too
    "rich>=13",
    "tomli-w>=1",
    "tomli>=2; python_version < '3.11'",
)


def requirements() -> list[str]:
    """Of a wheel; of an editable installation, which has all parts, what each of them requires."""
    version = project_page.version(ROOT)
    if "BUILDS_EDITABLE_CONFORMANCE" not in os.environ:
        return [f"conformance-generator=={version}", *REQUIRED]
    files = (ROOT / "parts" / name / "requirements.txt" for name in ("generator", "lab", "page"))
    found = [
        *REQUIRED,
        *(line.partition(" #")[0] for file in files for line in file.read_text(encoding="utf-8").splitlines()),
    ]
    return list(dict.fromkeys(each for each in found if not each.startswith(("#", "conformance"))))


class BuildWithPages(build_py):
    """Puts the pages below conformance/docs, and leaves out what is of another part.

    An editable install reads pages where they are, and has all parts.
    """

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        return [each for each in super().find_package_modules(package, package_dir) if self._is_own(each[2])]

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        return [each for each in super().find_data_files(package, src_dir) if self._is_own(each)]

    def _is_own(self, file: str) -> bool:
        path = Path(file).resolve().relative_to(ROOT.resolve() / "conformance")
        return self.editable_mode or parts.part_of(path, parts.read()) == "suite"

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
    install_requires=requirements(),
    long_description=project_page.description(ROOT / "README.md", REPOSITORY),
    long_description_content_type="text/markdown",
    project_urls=project_page.urls(REPOSITORY),
    cmdclass={"build_py": BuildWithPages},
)
