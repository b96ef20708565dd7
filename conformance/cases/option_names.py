"""The names of compiler options, read from torch's sources: checking a declaration must not import torch."""

from __future__ import annotations

import ast
import difflib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from conformance.capture.compiler_options import DYNAMO, RESERVED
from conformance.cases.axes import CaseError
from conformance.cases.case import Case
from conformance.cases.selectors import matches_installed_torch
from conformance.devices.environment import torch_build

#: The files that define options, and what precedes their names in a case's `config`.
_FILES = {"_inductor/config.py": "", "_dynamo/config.py": DYNAMO}


def validate(cases: Iterable[Case]) -> None:
    """Raises CaseError for a case with an option that the installed torch lacks, or that the suite sets itself.

    A case that its `only` excludes from this torch may have options of another one.
    """
    for case in cases:
        if case.config and not _is_of_another_torch(case):
            for name in case.config:
                if problem := problem_of_option(name):
                    raise CaseError(f"{case.file.name}: test_{case.name}: config[{name!r}]: {problem}")


def problem_of_option(name: str) -> str:
    """Why an option cannot be set, with the nearest names; "" if it can, and where torch's sources are not readable."""
    known = option_names(torch_build().folder)
    if name in RESERVED:
        return f"the suite sets {name} itself, because {RESERVED[name]}"
    if not known or name in known:
        return ""
    near = nearest_options(name, sorted(known))
    return f"torch {torch_build().version} has no such option" + (f"; nearest: {', '.join(near)}" if near else "")


def nearest_options(name: str, known: Sequence[str]) -> list[str]:
    """At most 3 names like one. Those that only lack or repeat the name of a group come first."""
    last = name.rpartition(".")[2]
    in_group = [each for each in known if each.rpartition(".")[2] == last]
    return list(dict.fromkeys([*in_group, *difflib.get_close_matches(name, known)]))[:3]


@functools.cache
def option_names(torch: Path) -> frozenset[str]:
    """The options of a torch, with some names of its config modules that are none. Empty where a file is missing."""
    names: set[str] = set()
    for path, prefix in _FILES.items():
        try:
            tree = ast.parse((torch / path).read_text(encoding="utf-8"))
        except (OSError, SyntaxError):
            return frozenset()
        classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        names |= {f"{prefix}{name}" for name in _assigned(tree.body, classes)}
    return frozenset(names)


def _assigned(body: Sequence[ast.stmt], classes: Mapping[str, ast.ClassDef], owner: str = "") -> Iterator[str]:
    """The names that statements set; those of a class and of its bases follow its name, as in `cpp.simdlen`."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            bases = (classes[each.id] for each in node.bases if isinstance(each, ast.Name) and each.id in classes)
            for each in (node, *bases):
                yield from _assigned(each.body, classes, f"{owner}{node.name}.")
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield f"{owner}{target.id}"
        for block in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef):
                yield from _assigned(getattr(node, block, ()), classes, owner)


def _is_of_another_torch(case: Case) -> bool:
    """Whether each selector of its `only` names a range of torch versions without the installed one."""
    return bool(case.only) and all(
        any(word.startswith("torch") and not matches_installed_torch(word) for word in selector.split())
        for selector in case.only
    )
