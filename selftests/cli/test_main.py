"""The commands of `python -m conformance`. Wrong input gives one sentence and exit status 2."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_process import process

from conformance.atomic_files import write_atomically
from conformance.cli.commands import doctor
from conformance.cli.main import COMMANDS, GROUPS
from conformance.devices import environment
from conformance.devices.cpp_compiler import find_compiler
from conformance.devices.machine import Machine
from conformance.devices.targets import targets

ROOT = Path(__file__).parents[2]
HFLIP = "flip/hflip-224-u8-contiguous"
VFLIP = "flip/vflip-224-u8-contiguous"

MINE = """
import beside_mine
from conformance import case, tensor

@case(x=tensor(20), dtype=["f32", "f64"])
def test_sine(x):
    return beside_mine.sine(x)

@case(x=tensor(20))
def test_wrong(x):
    return x.no_such_method()

@case(x=tensor(20), numerics={"exact": 7})
def test_policy(x):
    return x.sin()
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A user's folder with a test file, as the current folder."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # a project, whatever lies in the folders above
    (tmp_path / "test_mine.py").write_text(MINE)
    (tmp_path / "beside_mine.py").write_text("def sine(x):\n    return x.sin()\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list(call):
    status, out, _ = call("list")
    assert status == 0
    assert re.search(rf"^{HFLIP} +\S*test_flip\.py$", out, re.MULTILINE)
    assert {line.split("/")[0] for line in out.splitlines()} >= {"flip", "mm", "sdpa", "smooth_l1_loss"}


def test_list_takes_patterns(call):
    status, out, _ = call("list", "hflip-*-u8", "vflip-256")
    assert status == 0
    ids = [line.split()[0] for line in out.splitlines()]
    assert HFLIP in ids
    assert all(re.match("flip/(hflip-.*-u8|vflip-256)", each) for each in ids)


def test_list_of_targets_gives_node_ids(call, monkeypatch):
    monkeypatch.chdir(ROOT)
    status, out, _ = call("list", HFLIP, "--device", "cuda,xpu", "--target", "cuda_sm90,xpu_pvc,cpu_avx2")
    node = "conformance/ops/test_flip.py::test_hflip[224-u8-contiguous-{}]\n"
    assert (status, out) == (0, node.format("cuda_sm90") + node.format("xpu_pvc"))


def test_list_for_programs(call, mine):
    status, out, _ = call("list", "sine", "test_mine.py", "--json", "--target", "cpu_avx2")
    assert status == 0
    file = str(mine / "test_mine.py")
    data = json.loads(out)
    first, _ = data["cases"]
    assert data["format"] == "conformance list 1"
    node = {"cpu_avx2": "test_mine.py::test_sine[f32-cpu_avx2]"}
    assert first == {"case": "mine/sine-f32", "file": file, "function": "test_sine", "nodes": node}


def test_list_of_a_folder(call, mine):
    assert call("list", ".")[1].split()[::2] == ["mine/sine-f32", "mine/sine-f64", "mine/wrong", "mine/policy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "hflpi"], "no case matches 'hflpi'; nearest: flip/hflip-"),
        (["list", "qqq"], "no case matches 'qqq'; `python -m conformance list` lists all"),
        (["list", "none.py"], r"there is no file \S*none.py"),
        (["list", "empty.py"], r"\S*empty.py declares no case"),
        (["list", "broken.py"], "broken.py cannot be imported: SyntaxError: "),
        (["list", "declared.py"], "declared.py: test_a: the keyword 'colour' is neither a parameter"),
        (["list", "--target", "cuda_sm99"], "unknown target 'cuda_sm99'; known are cpu_avx2, "),
        (["list", "--device", "cpu", "--target", "cuda_sm90"], "--device cpu and --target cuda_sm90 have no target in"),
        (
            ["show", "flip/hflip-224-u8", "--target", "cpu_avx2"],
            "there is no case 'flip/hflip-224-u8'; nearest: flip/h",
        ),
        (["show", HFLIP], r"no target: add --target {cpu_avx2,"),
        (["show", HFLIP, "--target", "cpu_avx3"], "unknown target 'cpu_avx3'; known are cpu_avx2, "),
        (["show", "none.py::test_a", "--target", "cpu_avx2"], r"there is no file \S*none.py"),
        (["show", "test_mine.py::test_c", "--target", "cpu_avx2"], "there is no case 'c' in test_mine.py; "),
        (
            ["show", "mine/polcy", "--target", "cpu_avx2"],
            "there is no case 'mine/polcy'; nearest: mine/policy, mine/",
        ),
        (["compare", HFLIP, "cpu_avx2"], r"compare two cases \(A B .*; got 1 case and 1 target"),
        (["compare", HFLIP, VFLIP, "cpu_avx2", "cpu_neon"], r"compare two .*; got 2 cases and 2 targets"),
        (["compare", HFLIP, "cuda_sm80", "cuda_sm9"], "unknown target 'cuda_sm9'; known are "),
        (
            ["compare", HFLIP, VFLIP, "--compiled", "exported"],
            r"the two forms of --compiled compare one case on one .*; got 2 cases and 0",
        ),
        (
            ["compare", HFLIP, "cpu_avx2", "--compiled", "regional"],
            r"flip/\S+: no module among its arguments repeats a block",
        ),
        (["compare", HFLIP, VFLIP], r"no target: add --target {cpu_avx2,"),
        (["compare", "2.13"], r"compare two cases .*, or two releases of torch .*; got 2.13"),
        (["compare", "2.13", HFLIP], r"compare two cases .*; got 2.13 flip/hflip"),
        (["compare", "2.13", "2.15", "--code"], "two releases are compared by what is stored, .*: leave out --code"),
        (["compare", HFLIP, VFLIP, "--markdown"], "--device and --markdown compare two releases: compare 2.13 2.15"),
        (["list", "--check"], "--check runs the scripts of known bugs: list --bugs --check"),
        (["list", "--bugs", "--target", "cpu_avx2"], "--bugs lists no cases: leave out --target, or --bugs"),
        (["list", "--missed", "last", "flip"], "--missed lists no cases: leave out cases, or --missed"),
        (["report", "--audit", "--json", "a.json"], "--audit writes no file: leave out -o, --markdown, "),
    ],
)
def test_bad_input_is_one_sentence(call, mine, words, message):
    (mine / "empty.py").write_text("")
    (mine / "broken.py").write_text("def f(:\n")
    (mine / "declared.py").write_text(
        "from conformance import case, tensor\n@case(x=tensor(2), colour=['red'])\ndef test_a(x): ...\n"
    )
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert re.match(f"error: {message}", err)
    assert err.count("\n") == 1


def test_argparse_says_how_it_is_called(call):
    assert call()[0] == 2
    assert call("show", HFLIP, "--face", "--target", "cpu_avx2")[0] == 2


@pytest.mark.parametrize(
    ("former", "new"),
    [
        ("bugs", "list --bugs"),
        ("missed", "list --missed"),
        ("diff", "compare OLD NEW"),
        ("audit", "report --audit RUN…"),
        ("drop", "prune --torch RELEASE --yes"),
    ],
)
def test_a_former_command_is_refused_with_the_new_one(call, former, new):
    status, out, err = call(former, "2.13")
    assert (status, out) == (2, "")
    assert err.endswith(f"error: `{former}` is `{new}` now\n")


def test_help_has_every_command_in_a_group_and_fits_80_columns(call):
    status, out, _ = call("--help")
    assert status == 0
    assert re.findall(r"^  (\w+)  +\w", out, flags=re.MULTILINE) == list(COMMANDS)
    assert [line[:-1] for line in out.splitlines() if line.endswith(":") and " " not in line[:1]][-3:] == list(GROUPS)
    assert max(map(len, out.splitlines())) < 80


def test_show(call):
    status, out, _ = call("show", HFLIP, "--target", "cpu_avx2")
    assert status == 0
    first, facts, *_ = out.splitlines()
    assert first.startswith(f"# {HFLIP} for cpu_avx2: generated, not run; torch {environment.torch_build().version}")
    assert re.fullmatch(r"kernels +1: flip \(.*\)", facts)
    assert "\n--- inference\n# kernel cpp_fused_flip_0\n" in out


@pytest.mark.parametrize(
    ("part", "begins", "without"),
    [
        ("--facts", "# facts\nkernels  ", "# kernel"),
        ("--code", "# AOT ID: inference", "vectorised"),
        ("--raw", "# AOT ID: ['", "vectorised"),
    ],
)
def test_show_a_part(call, part, begins, without):
    status, out, _ = call("show", HFLIP, "--target", "cpu_avx2", part)
    assert status == 0
    rest = out.partition("\n")[2]
    assert rest.startswith(begins)
    assert without not in rest


@pytest.mark.parametrize(
    "name",
    [
        "conformance/ops/test_flip.py::test_hflip[224-u8-contiguous-cpu_neon]",  # from any folder, as pytest printed it
        f"{ROOT}/conformance/ops/test_flip.py::test_hflip[224-u8-contiguous-cpu_neon]",
        f"{ROOT}/conformance/ops/test_flip.py::{HFLIP}-cpu_neon",
        f"{HFLIP}-cpu_neon",  # as messages of the suite name an item
        "test_hflip[224-u8-contiguous-cpu_neon]",
    ],
)
def test_show_takes_the_names_that_people_have(call, mine, name):
    status, out, _ = call("show", name, "--facts")
    assert status == 0
    assert out.startswith(f"# {HFLIP} for cpu_neon: generated, not run; ")


def test_show_for_a_pretended_device(call):
    if not environment.triton_version():
        pytest.skip("Triton is not installed")
    status, out, _ = call("show", HFLIP, "--target", "cuda_sm90", "--deviceless", "--numerics")
    assert status == 0
    assert f"# {HFLIP} for cuda_sm90: generated without the device; " in out
    assert "@triton.jit" in out
    assert "\nnumerics    right (emulated): " in out


def host() -> str:
    """Returns a target that this machine runs, or ""."""
    machine = Machine.detect()
    return next((target.name for target in targets().values() if machine.is_native(target)), "")


def test_show_checks_numerics(call, mine):
    if not host() or not find_compiler():
        pytest.skip("no cpu code runs here")
    file = str(mine / "test_mine.py")
    status, out, _ = call("show", f"{file}::mine/sine-f32", "--target", host(), "--facts", "--numerics")
    assert status == 0
    assert f" for {host()}: compiled and run here; " in out
    assert re.search(r"^numerics    right: \d+ tensors compared; nearest to the limit: .* ulp of ", out, re.MULTILINE)

    status, _, err = call("show", f"{file}::mine/policy", "--target", host(), "--facts", "--numerics")
    assert (status, err) == (2, "error: mine/policy: numerics['exact'] is 7; it must be True or False\n")


def test_show_of_wrong_numerics(call, monkeypatch):
    if not host() or not find_compiler():
        pytest.skip("no cpu code runs here")
    from conformance.numerics import check

    def wrong(*_, **__):
        raise check.NumericsError("output: 3 of 20 elements")

    monkeypatch.setattr(check, "check_numerics", wrong)
    status, out, _ = call("show", HFLIP, "--target", host(), "--facts", "--numerics")
    assert status == 1
    assert out.endswith("\nnumerics    wrong\noutput: 3 of 20 elements\n")


def test_show_of_a_case_that_does_not_compile(call, mine):
    status, out, err = call("show", "test_mine.py::test_wrong", "--target", "cpu_avx2")
    assert (status, out) == (1, "")
    assert re.match("error: mine/wrong for cpu_avx2: .*AttributeError: .*no_such_method", err)


def test_compare_two_cases(call):
    status, out, _ = call("compare", HFLIP, VFLIP, "--target", "cpu_avx2")
    assert status == 0
    head, _, diff = out.partition("\n--- ")
    assert re.search(f"\n\n# facts differ\n +{HFLIP} +{VFLIP}\nkernels +1: flip .* \\| 1: flip .*", head)
    assert re.search("\nvectorised +no: .* \\| yes", head)
    assert re.search("\nfallbacks +none {3,}none\n", head)  # what is the same has no mark
    assert head.endswith("\n\n# code differs")
    assert diff.startswith(f"{HFLIP} for cpu_avx2\n+++ {VFLIP} for cpu_avx2\n@@ ")
    assert call("compare", HFLIP, VFLIP, "--target", "cpu_avx2", "--exit-code")[0] == 1


def test_compare_two_targets(call):
    status, out, _ = call("compare", HFLIP, "--target", "cpu_avx2", "cpu_avx512", "--exit-code")
    assert (status, out.splitlines()[2:4]) == (0, ["", "# facts: the same"])
    assert out.endswith("\n\n# code: the same\n")
    assert call("compare", HFLIP, "cpu_avx2", "cpu_avx512")[1] == out
    assert call("compare", f"{HFLIP}-cpu_avx2", "cpu_avx512")[1] == out
    assert call("compare", HFLIP, "--target", "cpu_avx2,cpu_avx512")[1] == out


def test_describe_device(call, monkeypatch):
    machine = Machine(gpus={})
    monkeypatch.setattr(Machine, "detect", lambda: machine)
    status, out, err = call("doctor", "--describe-device")
    assert (status, out) == (1, "")
    assert err.startswith("torch finds no GPU here: ")

    known = targets()["cuda_sm90"]
    properties = dict(known.properties) | {"uuid": "GPU-1", "multi_processor_count": 78, "name": 'An "H20"'}
    machine = Machine(gpus={"cuda": {"capability": [9, 0], "properties": properties}})
    status, out, _ = call("doctor", "--describe-device")
    assert status == 0
    assert out.startswith("[cuda_sm90_other]\n")
    assert "GPU-1" not in out


def test_a_described_device_is_a_row_of_the_table(tmp_path):
    known = targets()["xpu_pvc"]
    gpu = {"capability": list(known.capability), "properties": dict(known.properties)}
    table = tmp_path / "targets.toml"
    table.write_text(doctor.target_row(Machine(gpus={"xpu": gpu}), "xpu"))
    row = targets(table)["xpu_pvc"]
    assert (row.properties, row.capability) == (known.properties, known.capability)
    assert table.read_text().startswith("# targets.toml has this device already: xpu_pvc\n")


@pytest.mark.long("it starts real processes, as a shell does")
def test_from_another_folder_into_head(tmp_path):
    listing = f"{sys.executable} -m conformance list"
    result = subprocess.run(
        ["bash", "-c", f"{listing} | head -1; echo ${{PIPESTATUS[0]}}; {listing} > /dev/full"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.match(r"\w+/\w+", result.stdout.splitlines()[0])
    assert result.stdout.splitlines()[1] in ("0", "141")  # whether it had ended before head did
    assert (result.returncode, result.stderr) == (2, "error: the output: No space left on device\n")


@pytest.mark.long("it starts real processes, as a shell does")
def test_dropped_variables_are_named(tmp_path):
    result = process("show", HFLIP, "--target", "cpu_avx2", "--facts", cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert result.returncode == 0
    assert result.stderr.startswith(
        "ignored environment variables, because they change generated code: OMP_NUM_THREADS\n"
    )


def test_interrupting_is_quiet(call, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "detect", interrupted)
    assert call("show", HFLIP, "--target", "cpu_avx2") == (130, "", "")


def test_colour_is_for_terminals(call, monkeypatch):
    from conformance.terminal import diff_line

    assert "\x1b" not in call("show", HFLIP, "--target", "cpu_avx2")[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert diff_line("-gone") == "\x1b[31m-gone\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert diff_line("-gone") == "-gone"


def test_an_interruption_that_becomes_another_error_is_quiet(call, monkeypatch):
    """An import of a module in C turns the KeyboardInterrupt into an ImportError."""

    def swallowed(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("cannot load module more than once per process") from None

    monkeypatch.setattr(Machine, "detect", swallowed)
    assert call("show", HFLIP, "--target", "cpu_avx2") == (130, "", "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    taken = tmp_path / "folder"
    taken.mkdir()
    (taken / "file").touch()
    with pytest.raises(OSError, match=r"folder'$") as caught:
        write_atomically(taken, "text")
    assert "tmp" not in Path(caught.value.filename).name


def test_the_folder_of_a_checkout_of_pytorch_is_refused(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('not built')")
    called = [sys.executable, "-m", "conformance", "list"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(called, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: Python would import {tmp_path / 'torch'}, which is a checkout of PyTorch")
    assert ended.stderr.count("\n") == 1
    (tmp_path / "torch" / "version.py").write_text("")  # it was built
    built = subprocess.run(called, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert "checkout of PyTorch" not in built.stderr
