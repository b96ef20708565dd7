#!/usr/bin/env python3
"""Does --affected-by select every case that an edit changes, and how few others?

    python benchmarks/affected.py --map MAP --sample 6      # 6 selected and 6 other items of each edit

Plants ten edits into Inductor, one after the other: each replaces or adds a line of a function, in memory. For a sample
of the map's items it compares the code that is generated with and without the edit, each in a forked process. An item
whose code changes and that is not selected is missed. Exit status 1 if any is.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import gc
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.lookup import find_case
from conformance.compiler.compiler import compiler_here
from conformance.coverage import map_file
from conformance.coverage.affected import affected_items
from conformance.coverage.changes import parse_diff
from conformance.devices.environment import torch_build
from conformance.errors import first_line
from conformance.generated.capture_texts import code_text
from conformance.sources.torch_source import blob_id
from conformance.sources.units import units_of


@dataclass(frozen=True)
class Edit:
    """`old`: a line of the function, without its indentation. `new`: the lines that stand there instead."""

    path: str
    function: str
    old: str
    new: str


_GATHER = "dim = _validate_dim(x, dim, offset)"
EDITS = (
    Edit("_inductor/lowering.py", "rev", "idx[dim] = (sizes[dim] - 1) - idx[dim]", "idx[dim] = sizes[dim] - idx[dim]"),
    Edit("_inductor/lowering.py", "constant_pad_nd", "out = _pad_as_cat(x, padding, fill_value)", "out = None"),
    Edit("_inductor/lowering.py", "pointwise_cat", "start_cond = ops.ge(idx_dim, start)",
         "start_cond = ops.gt(idx_dim, start)"),
    Edit("_inductor/lowering.py", "var_mean_sum_", "denom = Max(denom - correction, 0)",
         "denom = Max(denom - correction, 1)"),
    Edit("_inductor/lowering.py", "gather", _GATHER, f"{_GATHER}\nx = clone(x)"),
    Edit("_decomp/decompositions.py", "_softmax", "result = unnormalized / torch.sum(unnormalized, dim, keepdim=True)",
         "result = unnormalized * torch.sum(unnormalized, dim, keepdim=True)"),
    Edit("_inductor/codegen/triton.py", "TritonOverrides.rsqrt", 'return f"libdevice.rsqrt({x})"',
         'return f"libdevice.rsqrt(0 + {x})"'),
    Edit("_inductor/codegen/triton.py", "TritonOverrides.sigmoid", 'return f"tl.sigmoid({x})"',
         'return f"tl.sigmoid(0 + {x})"'),
    Edit("_inductor/codegen/cpp.py", "CppVecOverrides.exp", 'return f"{x}.exp()"', 'return f"{x}.exp2()"'),
    Edit("_inductor/fx_passes/fuse_attention.py", "_sfdp_replacement_1", "scale=1.0 / inv_scale,",
         "scale=2.0 / inv_scale,"),
)  # fmt: skip


def edited(edit: Edit, text: str) -> str:
    unit, lines = units_of(text).functions[edit.function], text.splitlines(keepends=True)
    [place] = [n for n in range(unit.first - 1, unit.last) if lines[n].strip() == edit.old]
    indent = lines[place][: -len(lines[place].lstrip())]
    lines[place] = "".join(f"{indent}{line}\n" for line in edit.new.splitlines())
    return "".join(lines)


def diff_of(path: str, old: str, new: str) -> str:
    head = f"diff --git a/torch/{path} b/torch/{path}\nindex {blob_id(old.encode())[:10]}..0123456789 100644\n"
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/torch/{path}", f"b/torch/{path}", lineterm="")
    return head + "\n".join(lines) + "\n"


def plant(edit: Edit, file: Path, new: str) -> None:
    """Gives the function its new code, wherever it is referred to."""
    name = edit.function.rpartition(".")[2]
    first = units_of(new).functions[edit.function].first
    codes = {code.co_firstlineno: code for code in _codes(compile(new, str(file), "exec", dont_inherit=True))}
    replaced = 0
    gc.unfreeze()  # the session froze what was imported
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == str(file) and each.__code__.co_name == name:
            start = each.__code__.co_firstlineno
            if start == first and start in codes:
                each.__code__ = codes[start]
                replaced += 1
    if not replaced:
        raise LookupError(f"no function {edit.function} is loaded")


def _codes(code: CodeType) -> list[CodeType]:
    inner = [each for constant in code.co_consts if isinstance(constant, CodeType) for each in _codes(constant)]
    return [code, *inner]


def forked(item: tuple[str, str], function: Callable[[], str]) -> str:
    """What a function returns in a forked process. If that process dies, the benchmark ends and names the item."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(read)
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            with os.fdopen(write, "w") as pipe:
                pipe.write(f"={function()}")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        content = pipe.read()
    _, status = os.waitpid(process, 0)
    if not content:
        sys.exit(f"{'-'.join(item)}: its process ended with status {os.waitstatus_to_exitcode(status)}")
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--map", required=True, type=Path)
    parser.add_argument("--sample", type=int, default=6, help="so many selected and so many other items of each edit")
    arguments = parser.parse_args()
    prepare()
    compiler, coverage, folder = compiler_here(), map_file.read(arguments.map), torch_build().folder
    targets = {name: compiler.target(name) for name in coverage.targets}
    compiler.set_up_torch()
    import torch

    torch.set_num_threads(1)
    case, _ = find_case(coverage.items[0][0], ())

    def code(item: tuple[str, str]) -> str:
        try:
            with compiler.generate(find_case(item[0], ())[0], targets[item[1]]) as result:
                return code_text(result.capture, targets[item[1]])
        except Exception as error:  # noqa: BLE001 - an edit may break the compile, which is a change too
            return f"{type(error).__name__}: {first_line(error)}"

    def code_after(edit: Edit, new: str, item: tuple[str, str]) -> str:
        plant(edit, folder / edit.path, new)
        return code(item)

    for target in coverage.targets:
        code((case.id, target))  # what runs once
    known: dict[tuple[str, str], str] = {}
    chance, shares, missed = random.Random(0), [], 0
    for edit in EDITS:
        file = folder / edit.path
        old = file.read_text(encoding="utf-8")
        new = edited(edit, old)
        found = affected_items(coverage, parse_diff(diff_of(edit.path, old, new), "the edit"), _reader(folder))
        selected = coverage.named(found.items)
        others = coverage.named(coverage.all_items & ~found.items)
        sample = [chance.sample(each, min(arguments.sample, len(each))) for each in (selected, others)]
        changed = [0, 0]
        for group, items in enumerate(sample):
            for item in items:
                if item not in known:
                    known[item] = forked(item, functools.partial(code, item))
                if forked(item, functools.partial(code_after, edit, new, item)) != known[item]:
                    changed[group] += 1
                    if group:
                        print(f"  missed: {'-'.join(item)}")
        share = len(selected) / len(coverage.items)
        shares.append(share)
        missed += changed[1]
        print(
            f"{edit.path}:{edit.function}: selects {len(selected)} of {len(coverage.items)} items, "
            f"{100 * share:.1f} %; "
            f"{changed[0]} of {len(sample[0])} selected and {changed[1]} of {len(sample[1])} other items change"
            f"{'; ' + found.everything if found.everything else ''}",
            flush=True,
        )
    print(f"missed {missed}; on average {100 * sum(shares) / len(shares):.1f} % are selected")
    return int(bool(missed))


def _reader(folder: Path) -> Callable[[str], bytes | None]:
    return lambda path: (folder / path).read_bytes() if (folder / path).is_file() else None


if __name__ == "__main__":
    sys.exit(main())
