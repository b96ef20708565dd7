"""Runs scripts, and functions of cases, in one process each, forked from one that has imported torch.

    PYTHON worker.py SECONDS WORK...        # prints one line of JSON for each: its status, and what it printed last

WORK is the path of a script, or `path/of/test_file.py::id/of-a-case`. Scripts need torch alone, and cases this
repository on PYTHONPATH. The fork saves the import and what each compilation would do again: it is several times as
fast as a new Python. It needs Linux. benchmarks/published_bugs.py starts it with each torch release.
"""

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool of processes would not survive the fork
os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"
# Code is compiled into one folder, so a precompiled header is made once. Its names come from what is compiled.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="published-bugs-")

#: What the child ends with, besides 0: compiled code answers otherwise than eager, or something else was raised.
DIFFERS, OTHER_ERROR = 1, 2


def _run_script(path):
    runpy.run_path(path, run_name="__main__")


def _run_case(work):
    """Compares values, dtypes, inputs after the call and gradients: less than the suite does on releases it knows."""
    import torch

    from conformance.capture.call_modes import enter_mode
    from conformance.cases.loader import cases_in

    file, _, name = work.partition("::")
    case = cases_in(Path(file))[name]
    options = {key: value for key, value in case.config.items() if not key.startswith("dynamo.")}
    compiled = torch.compile(case.fn, dynamic=True if case.dynamic else None, options=options or None)
    expected, answer = (_observed(function, case, enter_mode) for function in (case.fn, compiled))
    if isinstance(answer, Exception) and not isinstance(expected, Exception):
        raise answer
    if isinstance(expected, Exception):
        if isinstance(answer, Exception):
            return
        raise AssertionError(f"eager raises {type(expected).__name__}, compiled answers")
    torch.testing.assert_close(answer, expected, equal_nan=True)


def _observed(function, case, enter_mode):
    """All tensors that a call shows: its result, its inputs after it, gradients. Or what it raised."""
    import torch
    from torch.utils._pytree import tree_flatten

    arguments = case.build()
    torch.manual_seed(0)
    try:
        with enter_mode(case.mode, "cpu"):
            result = function(**arguments)
        results = [each for each in tree_flatten(result)[0] if isinstance(each, torch.Tensor)]
        inputs = [each for each in tree_flatten(arguments)[0] if isinstance(each, torch.Tensor)]
        ends = [each for each in results if each.requires_grad]
        if ends:
            torch.autograd.backward(ends, [torch.ones_like(each) for each in ends])
        gradients = [each.grad for each in inputs if each.is_leaf and each.grad is not None]
    except Exception as error:  # noqa: BLE001 - which ones both raise is compared
        return error
    shown = [each.detach() for each in (*results, *inputs, *gradients)]
    return [*shown, torch.tensor([each.requires_grad for each in results])]


def _child(work, output):
    os.setsid()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.argv = [work]
    status = 0
    try:
        (_run_case if "::" in work else _run_script)(work)
    except AssertionError as wrong:
        # An assertion of the compiler is a crash, which nobody overlooks.
        frames = traceback.extract_tb(wrong.__traceback__)
        status = (
            OTHER_ERROR
            if any("/_dynamo/" in each.filename or "/_inductor/" in each.filename for each in frames)
            else DIFFERS
        )
        traceback.print_exc()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        status = OTHER_ERROR
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _wait(child, seconds):
    """The exit status; None if it took too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _warm(torch):
    """Does once what each compilation would do: imports, patterns of passes, asking the processor for its vectors.

    Nothing here may start threads of OpenMP or of autograd, which a fork does not survive.
    """
    names = ("codecache", "codegen.cpp", "codegen.wrapper", "compile_fx", "cpu_vec_isa", "decomposition", "scheduler")
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(f"torch._inductor.{name}")
    isa = sys.modules.get("torch._inductor.cpu_vec_isa") or sys.modules["torch._inductor.codecache"]
    isa.pick_vec_isa()
    for name in ("joint_graph", "post_grad"):
        passes = importlib.import_module(f"torch._inductor.fx_passes.{name}")
        with contextlib.suppress(Exception):
            passes.lazy_init()
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1))
    torch._dynamo.reset()  # noqa: SLF001 - a fork begins as a new process would


def main():
    warnings.simplefilter("ignore")
    import torch

    _warm(torch)
    version = ".".join(torch.__version__.split(".")[:2])
    if cases := [work for work in sys.argv[2:] if "::" in work]:
        from conformance.cases.loader import cases_in

        for file in {work.partition("::")[0] for work in cases}:
            cases_in(Path(file))
    for work in sys.argv[2:]:
        with tempfile.TemporaryFile("w+") as output:
            child = os.fork()
            if child == 0:
                _child(work, output)
            status = _wait(child, float(sys.argv[1]))
            output.seek(0)
            lines = [line.strip() for line in output.read().splitlines() if line.strip()]
        print(json.dumps({"work": work, "torch": version, "status": status, "output": lines[-12:]}), flush=True)


if __name__ == "__main__":
    main()
