#!/usr/bin/env python3
"""Writes the diagrams and the tables of rooms into their page, from the imports and the packages' docstrings.

    python ci/architecture.py            # writes docs/architecture.md
    python ci/architecture.py --check    # writes nothing; exit status 1 and a diff where the page is stale

A room is a package of `conformance`. An arrow means "imports". Arrows that follow from others are left out: where
`harness` imports `review`, and `review` imports `storage`, no arrow leads from `harness` to `storage`.
Needs grimp, which comes with import-linter.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "conformance"
#: Cases are data: no module imports them, and they import `conformance` alone.
NOT_ROOMS = frozenset({"ops"})
#: Modules beside the rooms that the diagrams show.
MODULES = {PACKAGE: ("plugin",), f"{PACKAGE}.capture": ("compile", "exploration", "isolation")}

#: Storey → its rooms, from the top. pyproject.toml has the same order for import-linter.
STOREYS = {
    "tools": ("fuzzer", "minimisation", "estimates", "bench", "bisection"),
    "suite": ("report", "harness", "review", "storage", "coverage", "expectations", "models", "sweep"),
    "engine": ("compiler", "numerics", "cases", "sources"),
    "generator": ("generated", "facts", "normalize", "capture", "devices"),
}

Imports = Mapping[str, Set[str]]


def rooms(package: str) -> dict[str, str]:
    """The packages directly below a package → the first sentence of each one's docstring, by the alphabet."""
    files = (ROOT / package.replace(".", "/")).glob("*/__init__.py")
    return {file.parent.name: first_sentence(file) for file in sorted(files) if file.parent.name not in NOT_ROOMS}


def rooms_and_modules(package: str) -> dict[str, str]:
    """The rooms, and the modules beside them that a diagram shows."""
    folder = ROOT / package.replace(".", "/")
    return rooms(package) | {name: first_sentence(folder / f"{name}.py") for name in MODULES[package]}


def first_sentence(file: Path) -> str:
    """Of the module's docstring. Exits where there is none."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    if not text:
        sys.exit(f"{file.relative_to(ROOT)} has no docstring: say in its first sentence what the package holds")
    sentence = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    return sentence.rstrip(".")


def imports_between(graph: grimp.ImportGraph, package: str, names: Set[str]) -> dict[str, set[str]]:
    """Name → the names that it imports; of packages and modules directly below `package`."""
    found: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for name, others in found.items():
        for module in {f"{package}.{name}"} | graph.find_descendants(f"{package}.{name}"):
            for imported in graph.find_modules_directly_imported_by(module):
                other = imported.removeprefix(f"{package}.").partition(".")[0]
                if imported.startswith(f"{package}.") and other in names and other != name:
                    others.add(other)
    return found


def reduced(imports: Imports) -> dict[str, list[str]]:
    """The same without the arrows that follow from others. The imports have no cycle: import-linter sees to that."""

    def reached(name: str) -> set[str]:
        return set(imports[name]).union(*(reached(other) for other in imports[name]))

    return {
        name: sorted(other for other in others if not any(other in reached(third) for third in others))
        for name, others in imports.items()
    }


def from_top(imports: Imports) -> list[str]:
    """All names, each above those that it imports; by the alphabet where the imports leave it open."""
    left, ordered = dict(imports), []
    while left:
        free = sorted(name for name in left if not any(name in others for others in left.values()))
        ordered += free
        left = {name: others for name, others in left.items() if name not in free}
    return ordered


def diagram(imports: Imports, storeys: Mapping[str, Sequence[str]]) -> str:
    """A Mermaid flowchart of the reduced imports, from the top down. `storeys`: name → the rooms in its frame."""
    arrows = reduced(imports)
    names = from_top(imports)
    lines = ["```mermaid", "flowchart TD"]
    for storey, rooms_of in storeys.items():
        lines += [f"    subgraph {storey}", *(f"        {name}" for name in names if name in rooms_of), "    end"]
    lines += [f"    {name} --> {other}" for name in names for other in arrows[name]]
    lines += [f"    {name}" for name in names if not arrows[name] and not any(name in them for them in arrows.values())]
    return "\n".join([*lines, "```"])


def table(package: str, sentences: Mapping[str, str], imports: Imports, page: Path) -> str:
    """Markdown: a row for each name, from the top down, with all that it imports directly."""
    up = "../" * len(page.relative_to(ROOT).parent.parts)
    lines = ["| room or module | holds | imports |", "|---|---|---|"]
    for name in from_top(imports):
        path = f"{package.replace('.', '/')}/{name}"
        link = f"[`{name}`]({up}{path if (ROOT / path).is_dir() else f'{path}.py'})"
        lines.append(f"| {link} | {sentences[name]} | {', '.join(sorted(imports[name])) or 'none of these'} |")
    return "\n".join(lines)


def sections(page: Path) -> dict[str, Callable[[], str]]:
    """Name of a generated section → what writes it."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)

    def section(package: str) -> str:
        sentences = rooms_and_modules(package)
        imports = imports_between(graph, package, set(sentences))
        drawn = diagram(imports, STOREYS if package == PACKAGE else {})
        return f"{drawn}\n\n{table(package, sentences, imports, page)}"

    return {
        "rooms": lambda: section(PACKAGE),
        "rooms of capture": lambda: section(f"{PACKAGE}.capture"),
    }


def filled(page: Path) -> str:
    """The page's text with its generated sections written anew. Exits where a page's markers are wrong."""
    text = page.read_text(encoding="utf-8")
    known = sections(page)

    def write(match: re.Match[str]) -> str:
        name = match[1]
        if name not in known:
            sys.exit(f"{page.relative_to(ROOT)}: unknown section {name!r}; known are {', '.join(known)}")
        return f"<!-- {name}: written by ci/architecture.py -->\n\n{known[name]()}\n\n<!-- end of {name} -->"

    return re.sub(
        r"<!-- ([\w ]+): written by ci/architecture\.py -->.*?<!-- end of \1 -->", write, text, flags=re.DOTALL
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 and a diff if it is stale")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT))  # grimp finds the package by its name; it does not import it
    page = ROOT / "docs" / "architecture.md"
    text, wanted = page.read_text(encoding="utf-8"), filled(page)
    if not check:
        page.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        name = str(page.relative_to(ROOT))
        diff = difflib.unified_diff(text.splitlines(), wanted.splitlines(), name, "from the imports", lineterm="")
        print("\n".join(diff))
        print(f"{name} does not match the imports. Write it again: python ci/architecture.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
