"""Whether the Python files of a source fit the binaries of the installed torch: a process of its own imports them."""

from __future__ import annotations

import os
import subprocess
import sys

from conformance.devices.environment import PreparationError, TorchBuild
from conformance.sources.laid_tree import LaidTree
from conformance.sources.torch_source import TorchSource

#: Imports what every compile imports, and prints the first error with the line that raised it. All of these are
#: private parts of torch, by name only: a module that a source lacks is left out.
_CHECK = """
import importlib, importlib.util, sys, traceback
names = ["torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.lowering",
         "torch._inductor.decomposition", "torch._inductor.scheduler", "torch._inductor.codegen.triton",
         "torch._inductor.codegen.cpp", "torch._inductor.codegen.cpp_wrapper_cpu",
         "torch._inductor.fx_passes.post_grad"]
def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:  # without the package that it is in
        return not name.startswith(error.name or "?")
for name in names:
    try:
        if is_there(name):
            importlib.import_module(name)
    except BaseException as error:
        message = (str(error).strip().splitlines() or [""])[0]
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" in f.filename]
        place = f" (torch/{frames[-1].filename.rpartition('/torch/')[2]}, line {frames[-1].lineno})" if frames else ""
        print(f"MISFIT importing {name} raises {type(error).__name__}: {message}{place}")
        break
else:
    print("FITS")
"""
_NOTE = "fit.txt"
#: Seconds until all is imported: on a busy machine it takes a minute.
_LIMIT = 600


class MisfitError(PreparationError):
    """Python files that do not fit the binaries of the installed torch."""


def misfit(tree: LaidTree) -> str:
    """Why a laid tree cannot be imported; "" if it can. Asked once for a tree: 4 s."""
    if not (said := tree.note(_NOTE)):
        environment = os.environ | {"PYTHONPATH": path_with(tree)}
        command = [sys.executable, "-c", _CHECK]
        try:
            ran = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=_LIMIT, cwd=tree.folder
            )
        except subprocess.TimeoutExpired:
            return f"importing it takes longer than {_LIMIT} s"
        lines = [line for line in ran.stdout.splitlines() if line.startswith(("FITS", "MISFIT "))]
        last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        said = lines[-1] if lines else f"MISFIT the process that imports it ended: {last}"
        tree.keep_note(_NOTE, said)
    return said.removeprefix("FITS").removeprefix("MISFIT ")


def path_with(tree: LaidTree) -> str:
    """PYTHONPATH with a tree first."""
    return os.pathsep.join([str(tree.folder), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def refuse_misfit(tree: LaidTree, source: TorchSource, build: TorchBuild) -> None:
    """Raises MisfitError, whose sentence names the source and the reason."""
    if reason := misfit(tree):
        raise MisfitError(
            f"the Python files of {source.name} do not fit the binaries of torch {build.version}: {reason}"
        )
