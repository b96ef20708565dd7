"""Runs torchfuzz for one seed, on the CPU: its programs name a GPU, and that name is replaced in their text.

python benchmarks/fuzzers/torchfuzz_program.py FOLDER SEED TEMPLATE CHECK

`FOLDER`: `tools/experimental/torchfuzz` of a PyTorch checkout; nothing in it is changed. `CHECK`: "own" is what the
template chooses, which may compare no numbers; "numerics" is torchfuzz's check that compares the sum of the output.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

CHECK = "EagerVsFullGraphDynamicCompileCheck"
NUMERICS = "EagerVsFullGraphDynamicCompileWithNumericsCheck"


def on_cpu(text: str) -> str:
    return text.replace("'cuda'", "'cpu'").replace('"cuda"', '"cpu"')


def use_numerics() -> None:
    """Makes torchfuzz's templates use its check with numbers. Raises ImportError if this torchfuzz has none."""
    for name in ("torchfuzz.cuda._checks", "torchfuzz.checks"):
        try:
            module: Any = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if hasattr(module, NUMERICS):
            setattr(module, CHECK, getattr(module, NUMERICS))
            return
    raise ImportError(f"this torchfuzz has no {NUMERICS}")


def main() -> None:
    folder, seed, template, check = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    sys.path[:0] = [str(folder.parent), str(folder)]
    fuzzer: Any = importlib.import_module("torchfuzz.fuzzer")
    if check == "numerics":
        use_numerics()
    create = fuzzer.create_program_file
    fuzzer.create_program_file = lambda text: create(on_cpu(text))
    fuzzer.fuzz_and_execute(seed=seed, template=template)


if __name__ == "__main__":
    main()
