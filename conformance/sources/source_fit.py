"""Whether the Python files of a source fit the binaries of the installed torch: a process of its own imports them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import traceback

from conformance.devices.environment import PreparationError, TorchBuild
from conformance.errors import first_line
from conformance.sources.laid_tree import LaidTree
from conformance.sources.torch_source import TorchSource

#: What every compile imports: private parts of torch, by name only. A module that a source lacks is left out.
_MODULES = (
    "torch",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "torch._inductor.decomposition",
    "torch._inductor.scheduler",
    "torch._inductor.codegen.triton",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._inductor.fx_passes.post_grad",
)
#: What an import raises that needs a file which a source does not have.
_INCOMPLETE = re.compile(r"raises (?:FileNotFoundError|ModuleNotFoundError: No module named 'torch\b)")
_FITS, _MISFIT = "FITS", "MISFIT "
_NOTE = "fit.txt"
#: Seconds until all is imported: on a busy machine it takes a minute.
_LIMIT = 600


class MisfitError(PreparationError):
    """Python files that do not fit the binaries of the installed torch."""


def import_problem() -> str:
    """Imports what every compile imports into this process. Returns the first error and its line; "" without one."""
    return next(filter(None, map(_problem_of, _MODULES)), "")


def _problem_of(name: str) -> str:
    try:
        if _is_there(name):
            importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - whatever the source raises is the answer
        frames = [each for each in traceback.extract_tb(error.__traceback__) if "/torch/" in each.filename]
        path = frames[-1].filename.rpartition("/torch/")[2] if frames else ""
        place = f" (torch/{path}, line {frames[-1].lineno})" if frames else ""
        return f"importing {name} raises {type(error).__name__}: {first_line(error)}{place}"
    return ""


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:  # without the package that it is in
        return not name.startswith(error.name or "?")


def misfit(tree: LaidTree) -> str:
    """Why a laid tree cannot be imported; "" if it can. Asked once for a tree: 4 s."""
    if not (said := tree.note(_NOTE)):
        environment = os.environ | {"PYTHONPATH": path_with(tree)}
        command = [sys.executable, "-m", "conformance.sources.source_fit"]
        try:
            ran = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=_LIMIT, cwd=tree.folder
            )
        except subprocess.TimeoutExpired:
            return f"importing it takes longer than {_LIMIT} s"
        lines = [line for line in ran.stdout.splitlines() if line.startswith((_FITS, _MISFIT))]
        last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        said = lines[-1] if lines else f"{_MISFIT}the process that imports it ended: {last}"
        tree.keep_note(_NOTE, said)
    return said.removeprefix(_FITS).removeprefix(_MISFIT)


def path_with(tree: LaidTree) -> str:
    """PYTHONPATH with a tree first."""
    return os.pathsep.join([str(tree.folder), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def refuse_misfit(tree: LaidTree, source: TorchSource, build: TorchBuild) -> None:
    """Raises MisfitError, whose sentence names the source and the reason."""
    reason = misfit(tree)
    if _INCOMPLETE.search(reason):
        raise MisfitError(
            f"the Python files of {source.name} are not complete: {reason}; name a folder with all that is below "
            "torch/, such as a checkout of PyTorch"
        )
    if reason:
        raise MisfitError(
            f"the Python files of {source.name} do not fit the binaries of torch {build.version}: {reason}"
        )


if __name__ == "__main__":
    reason = import_problem()
    print(f"\n{_MISFIT}{reason}" if reason else f"\n{_FITS}")
