"""The pages of the repository as Sphinx's sources: links between them, and pages for the files that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from conformance.devices.torch_releases import CHANGES

ROOT = Path(__file__).resolve().parents[2]
#: The pages outside docs/ → their names in the site.
BESIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/losses/README.md": "examples/losses.md",
    "examples/passes/README.md": "examples/passes.md",
    "examples/operators/README.md": "examples/operators.md",
}
#: The table of contents: caption → pages.
CONTENTS = {
    "Use": [
        "overview",
        "running",
        "commands",
        "snapshots",
        "numerics",
        "same-bits",
        "memory-and-work",
        "report",
        "debugging",
        "bisect",
        "minimise",
        "explore",
        "estimate",
        "overlay",
        "contracts",
        "custom-operators",
        "vendor",
        "public-names",
    ],
    "Reference": ["reference/names", "reference/command-line", "reference/pytest-options"],
    "Examples": ["examples/losses", "examples/passes", "examples/operators", "examples/executed", "examples/report"],
    "Trust": ["deviceless", "xpu", "emulation", "binaries", "mutants", "sweep", "models", "measurements"],
    "Results": [
        "known-bugs",
        "found",
        "missed-optimisations",
        "kinds",
        "flip",
        "accuracy",
        "same-bits-operators",
        *CHANGES,
    ],
    "Develop": ["contributing", "architecture", "formats", "changelog"],
}
#: Pages whose entry in the table of contents is not their heading.
_TITLES = {"overview": "Install and use"}
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()<?([^()\s>]+)>?(\))")
_FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)\s*$)", re.MULTILINE | re.DOTALL)
#: Pages of source files are in no table of contents, and the search finds what is written about them instead.
_ORPHAN = "---\norphan: true\nnosearch: true\n---\n"
#: Pictures of this kind are made by the build: docs/ need not have them yet.
_PICTURE = ".png"
_LANGUAGES = {".py": "python", ".toml": "toml", ".cpp": "cpp", ".yml": "yaml", ".ini": "ini"}


def write_pages(source: Path) -> None:
    """Writes each page, and a page for each file of the repository that a page links to."""
    found = _found()
    linked: set[Path] = set()
    for path, target in found.items():
        text = path.read_text(encoding="utf-8")
        parts = _FENCE.split(text)
        parts = [part.replace("```mermaid", "```text", 1) for part in parts]  # the theme draws no diagrams
        parts[::2] = [_with_links(part, path, target, found, linked) for part in parts[::2]]
        _write(source / target, "".join(parts))
    for image in (path for kind in ("*.svg", "*.png") for path in (ROOT / "docs").rglob(kind)):
        target = source / image.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(image.read_bytes())
    for path in sorted(linked):
        if path.is_file():
            _write(source / "_files" / path.relative_to(ROOT), path.read_text(encoding="utf-8"))
        _write(source / _source_page(path), _listing(path) if path.is_dir() else _included(path))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _found() -> dict[Path, Path]:
    """The page in the repository → that in the site."""
    found = {ROOT / name: Path(target) for name, target in BESIDE.items()}
    return found | {path: path.relative_to(ROOT / "docs") for path in sorted((ROOT / "docs").rglob("*.md"))}


def contents() -> str:
    """The table of contents, which the home page has."""
    known = {path.with_suffix("").as_posix() for path in _found().values()}
    named = {name for names in CONTENTS.values() for name in names}
    rest = sorted(known - named)
    captions = {**CONTENTS, "More": rest} if rest else CONTENTS
    trees = [
        f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(map(_entry, names)) + "\n```"
        for caption, names in captions.items()
    ]
    return "\n\n" + "\n\n".join(trees) + "\n"


def _entry(name: str) -> str:
    return f"{_TITLES[name]} <{name}>" if name in _TITLES else name


def _with_links(text: str, page: Path, target: Path, found: Mapping[Path, Path], linked: set[Path]) -> str:
    def replaced(match: re.Match[str]) -> str:
        before, address, after = match.groups()
        file, _, anchor = address.partition("#")
        if not file or re.match(r"[a-z]+:", address):
            return match[0]
        path = (page.parent / file).resolve()
        if path in found:
            wanted = found[path]
        elif path.is_relative_to(ROOT / "docs") and (path.is_file() or path.suffix == _PICTURE):
            wanted = path.relative_to(ROOT / "docs")
        elif path == ROOT / "docs" / "upstream":
            wanted = next(each for each in sorted(found.values()) if each.parts[0] == "upstream")
        else:
            linked.add(path)
            wanted = _source_page(path)
        up = "../" * (len(target.parts) - 1)
        return f"{before}{up}{wanted.as_posix()}{'#' if anchor else ''}{anchor}{after}"

    return _LINK.sub(replaced, text)


def _source_page(path: Path) -> Path:
    return Path("source", f"{path.relative_to(ROOT).as_posix()}.md")


def _included(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, "text")
    name = path.relative_to(ROOT).as_posix()
    return f"{_ORPHAN}# {name}\n\n```{{literalinclude}} /_files/{name}\n:language: {language}\n```\n"


def _listing(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    files = sorted(each.name for each in path.iterdir() if not each.name.startswith("__"))
    return f"{_ORPHAN}# {name}/\n\n" + "\n".join(f"- `{file}`" for file in files) + "\n"
