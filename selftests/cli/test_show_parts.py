"""`show` and `compare`: each part of a capture, on each device type."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading

import pytest
import torch

from conformance.capture import torch_logs
from conformance.capture.model import Capture
from conformance.cases.lookup import find_case
from conformance.cli.main import main
from conformance.compiler.compiler import compiler_here
from conformance.devices import environment

HFLIP = "flip/hflip-224-u8-contiguous"
BACKWARD = "flip/hflip_backward-static"
TARGETS = ("cpu_avx2", "cuda_sm90", "xpu_pvc")
EVERYTHING = ("--facts", "--why", "--graph", "--graph", "runnable", "--ir", "--code", "--raw", "--bytecode", "--log")

BROKEN = """
import torch

def broken(x, table, beta=2.0):
    y = (x * beta).relu()
    print("between")
    return y.sum(-1) + table[torch.arange(3, device=table.device)]
"""


def shown(*words: str) -> str:
    """Runs a command that must succeed; returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(words) == 0
    return out.getvalue()


def needs_triton(target: str) -> None:
    if not target.startswith("cpu") and not environment.triton_version():
        pytest.skip("Triton is not installed")


@pytest.fixture(scope="module", params=TARGETS)
def everything(request):
    """Title → text of each block of a case with gradients; torch's loggers before and after."""
    needs_triton(request.param)
    before = _loggers()
    out = shown("show", BACKWARD, "--target", request.param, "--deviceless", *EVERYTHING)
    blocks = re.split(
        r"^# ((?:facts|further facts|why|graph:|ir:|code|raw:|bytecode:|guards:|log)[^\n]*)\n", out, flags=re.MULTILINE
    )
    return dict(zip(blocks[1::2], blocks[2::2], strict=True)), before, _loggers()


def _loggers():
    """All loggers of torch except the trace: a capture silences that one for the whole process."""
    names = [name for name in logging.Logger.manager.loggerDict if name.startswith("torch") and "__trace" not in name]
    loggers = {name: logging.getLogger(name) for name in names}
    return {name: (each.level, each.propagate, tuple(each.handlers)) for name, each in loggers.items()}


def test_every_part_is_there(everything):
    blocks, _, _ = everything
    expected = ["facts", "further facts", "why"]
    for stage, whens in {
        "captured": ("as Dynamo captured it", "after pre-grad passes"),
        "joint": ("as AOTAutograd traced it", "after joint-graph passes"),
        "forward": ("as it was partitioned", "after post-grad passes"),
        "backward": ("as it was partitioned", "after post-grad passes"),
    }.items():
        expected += [f"graph: {stage}, {when}" for when in whens]
    expected.append("graph: runnable")
    expected += [f"ir: {kind}, {when} fusion" for kind in ("forward", "backward") for when in ("before", "after")]
    expected += ["code", "raw: forward", "raw: backward"]
    assert [title for title in blocks if not title.startswith(("bytecode", "guards", "log"))] == expected
    assert list(blocks)[-1] == "log"


def test_parts_hold_what_they_say(everything):
    blocks, _, _ = everything
    assert re.match(r"kernels +2", blocks["facts"])
    assert "l_x_.flip(-1)" in blocks["graph: captured, as Dynamo captured it"]
    assert "tangents_1" in blocks["graph: joint, as AOTAutograd traced it"]
    assert "torch.ops.prims.rev.default(tangents_1" in blocks["graph: backward, as it was partitioned"]
    assert "SchedulerNode" in blocks["ir: forward, before fusion"]
    assert "async_compile" in blocks["raw: backward"]
    assert "[fusion] ===== attempting fusion (1/10): 1 nodes =====" in blocks["log"]
    original, modified = (text for title, text in blocks.items() if title.startswith("bytecode: "))
    assert "LOAD_METHOD" in original or "LOAD_ATTR" in original
    assert "__compiled_fn_" in modified
    guards = next(text for title, text in blocks.items() if title.startswith("guards: "))
    size = r"check_tensor\(L\['x'\], torch.float32, .*requires_grad=True, size=\[1, 3, 224, 224\]"
    assert re.search(size, guards)


def test_no_addresses_and_no_colour_in_a_pipe(everything):
    text = "".join(f"{text}" for title, text in everything[0].items() if not title.startswith("raw"))
    assert not re.search(r" at 0x[0-9a-f]{6,}", text)
    assert "\x1b" not in text


def test_logging_is_left_as_it_was(everything):
    _, before, after = everything
    assert {name: after[name] for name in before} == before
    ours = [name for name, (_, _, handlers) in after.items() if any("_Taking" in str(type(h)) for h in handlers)]
    assert ours == []
    from torch._dynamo import convert_frame

    assert not convert_frame._bytecode_hooks


def test_what_torch_logs_asks_for_still_comes(monkeypatch, caplog):
    logger = logging.getLogger("torch._inductor.scheduler.__fusion")
    monkeypatch.setattr(logger, "propagate", True)
    caplog.set_level(logging.DEBUG, logger.name)  # as TORCH_LOGS=fusion does
    with torch_logs.record_logs() as lines:
        logger.debug("op0 with %s", "op1")
    assert lines == [("fusion", "op0 with op1")]
    assert "op0 with op1" in caplog.messages


@pytest.fixture
def compiler():
    with contextlib.closing(compiler_here()) as made:
        yield made


def test_an_explored_capture_travels_as_json(compiler):
    case, _ = find_case(BACKWARD, ())
    with compiler.generate(case, compiler.target("cpu_avx2"), explore=True) as captured:
        capture = captured.capture
        assert Capture.from_json(json.loads(json.dumps(capture.to_json()))) == capture


def test_a_normal_capture_is_not_explored(compiler):
    case, _ = find_case(HFLIP, ())
    with compiler.generate(case, compiler.target("cpu_avx2")) as captured:
        assert captured.capture.exploration is None


@pytest.mark.parametrize("target", TARGETS)
def test_the_runnable_graph_gives_the_function_s_result(tmp_path, target):
    """A function with a graph break gives two graphs in one script, which runs without this package."""
    needs_triton(target)
    (tmp_path / "mine.py").write_text(BROKEN)
    given = ("--input", "x=3x20:f32", "--input", "table=torch.arange(5.0)")
    script = shown(
        "show", f"{tmp_path}/mine.py:broken", *given, "--target", target, "--deviceless", "--graph", "runnable"
    ).removeprefix("between\n")
    (tmp_path / "script.py").write_text(f"{script}\ntorch.save([inputs, outputs, inputs2, outputs2], 'saved.pt')\n")
    result = subprocess.run(
        [sys.executable, "-I", "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(r"\(3, 20\) \(20, 1\) torch.float32 .*\n\(3,\) \(1,\) torch.float32 .*\n", result.stdout)
    (x,), (y,), second, (last,) = torch.load(tmp_path / "saved.pt", map_location="cpu")
    assert x.shape == (3, 20)
    torch.testing.assert_close(y, (x * 2.0).relu())
    by_shape = {tuple(value.shape): value for value in second}
    torch.testing.assert_close(last, by_shape[3, 20].sum(-1) + by_shape[(5,)][:3])


def test_stages_that_there_are_not():
    out = shown("show", HFLIP, "--target", "cpu_avx2", "--graph", "joint")
    assert out.endswith("\n(there is none: nothing requires a gradient)\n")


def test_an_option_with_an_optional_value_takes_no_case():
    stage = "graph: forward, after post-grad passes"
    assert stage in shown("show", "--graph", HFLIP, "--target", "cpu_avx2")
    out = shown("compare", "--graph", HFLIP, "flip/vflip-224-u8-contiguous", "--target", "cpu_avx2")
    assert out.startswith(f"# {HFLIP} for cpu_avx2: ")
    assert "-        flip: " in out
    assert "test_flip.py" not in out  # two cases stand in different lines


@pytest.mark.parametrize("part", ["--graph", "--ir", "--code", "--facts", "--why"])
def test_compare_two_devices_part_by_part(part):
    needs_triton("cuda_sm90")
    out = shown("compare", HFLIP, "cpu_avx2", "cuda_sm90", part)
    title = {
        "--graph": "graph: captured",
        "--ir": "ir: inference",
        "--code": "code",
        "--facts": "facts",
        "--why": "why",
    }
    assert f"\n\n# {title[part]}" in out
    others = [other for name, other in title.items() if name != part]
    assert not [other for other in others if f"\n\n# {other}" in out]
    if part == "--graph":
        assert "differs" not in out  # the device's name is all that does


def test_side_by_side_fits_the_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    out = shown("compare", HFLIP, "flip/vflip-224-u8-contiguous", "--target", "cpu_avx2", "--side-by-side")
    lines = out.splitlines()[3:]
    assert max(map(len, lines)) <= 90
    assert any(" | " in line for line in lines)
    old = [line[:43].rstrip() for line in lines]
    assert "#pragma omp for" in " ".join(old)


def test_a_terminal_has_colours(monkeypatch):
    """With NO_COLOR it has none."""
    words = ("show", HFLIP, "--target", "cpu_avx2", "--facts", "--graph", "--code")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = _on_a_terminal(monkeypatch, words)
    assert "\x1b[1m# flip/hflip" in coloured
    assert "\x1b[36mvectorised\x1b[0m" in coloured
    assert re.search(r"\x1b\[\d+mdef\x1b", coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = _on_a_terminal(monkeypatch, words)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def _on_a_terminal(monkeypatch, words):
    """Runs a command in a pseudo-terminal; returns what it writes."""
    ours, theirs = pty.openpty()
    out = []

    def read():
        with contextlib.suppress(OSError):  # EIO where the other end closes
            while chunk := os.read(ours, 4096):
                out.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with monkeypatch.context() as patched, os.fdopen(theirs, "w") as terminal:
        patched.setattr(sys, "stdout", terminal)
        assert main(words) == 0
    reader.join()
    os.close(ours)
    return b"".join(out).decode().replace("\r\n", "\n")


@pytest.mark.long("it reads the stored code of all cases of a target")
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_name_the_cases_that_store_them(target):
    needs_triton(target)
    out = shown("show", HFLIP, "--target", target, "--deviceless", "--kernels")
    name, digest, stored_in = re.search(r"^# kernels\n(\S+)  (0x[0-9a-f]{16})\n  (.*)$", out, re.MULTILINE).groups()
    assert stored_in.startswith("the same in flip/hflip-")
    text = shown("show", HFLIP, "--target", target, "--deviceless", "--kernels", "flip")
    assert f"# {name}\n" in text
    assert digest not in text
    assert "def call" not in text


def test_kernels_with_a_name_of_none():
    with contextlib.redirect_stderr(io.StringIO()) as err:
        assert main(["show", HFLIP, "--target", "cpu_avx2", "--kernels", "softmax"]) == 2
    assert "no kernel has 'softmax' in its name; there are: cpp_fused_flip_0" in err.getvalue()
