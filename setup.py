"""Puts the pages of documentation into the wheel, below conformance/docs. pyproject.toml has everything else."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: The pages beside docs/. conformance/documentation.py has the same list.
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


class BuildWithPages(build_py):
    """An editable install reads the pages where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        pages = {Path(name): Path(name) for name in BESIDE}
        pages |= {path: path.relative_to("docs") for path in Path("docs").rglob("*.md")}
        for source, name in pages.items():
            target = Path(self.build_lib, "conformance", "docs", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


setup(cmdclass={"build_py": BuildWithPages})
