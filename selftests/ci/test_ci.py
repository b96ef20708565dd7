"""The device matrix, the workflow that is written from it, and the scripts that its jobs call."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.devices.torch_releases import VERSIONS

ROOT = Path(__file__).parents[2]
CI = ROOT / "ci"


def module(name):
    spec = importlib.util.spec_from_file_location(name, CI / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def matrix(monkeypatch):
    monkeypatch.syspath_prepend(CI)
    for name in ("bootstrap", "matrix", "workflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield module("matrix")
    sys.modules.pop("matrix")


def script(*command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_rows_name_environments_that_tox_has_with_the_torch_they_say(matrix):
    rows = matrix.load()
    wanted = ",".join(row.tox_env for row in rows)
    run = script("-m", "tox", "config", "-e", wanted, "-k", "deps", "extras")
    assert run.returncode == 0, run.stdout + run.stderr
    sections = {section.partition("]")[0]: section for section in run.stdout.split("[testenv:")[1:]}
    for row in rows:
        section = sections[row.tox_env]
        if row.torch:
            assert re.search(rf"torch=={re.escape(row.torch)}(?:\.\d+)?$", section, re.MULTILINE), row
            assert ("triton==" in section) == (row.runner.name != "xpu"), row


def test_hosted_rows_name_a_python_and_the_others_leave_it_to_the_machine(matrix):
    for row in matrix.load():
        assert bool(row.python) == row.runner.hosted, row


def test_each_python_that_is_supported_has_a_row(matrix):
    pythons = {row.python for row in matrix.load() if row.torch}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert pythons - {""} == set(re.findall(r"Python :: (3\.\d+)", text))


def test_hosted_rows_name_the_architecture_of_their_machine(matrix):
    for row in matrix.load():
        assert bool(row.runner.machine) == row.runner.hosted, row


def test_rows_on_machines_of_our_own_require_their_device(matrix):
    own = [row for row in matrix.load() if not row.runner.hosted]
    assert {row.runner.name for row in own} == {"cuda", "xpu"}
    for row in own:
        assert "--require-device" in row.command(), row
        assert row.args[row.args.index("--device") + 1] == row.runner.name, row


def test_every_torch_is_run_on_every_device_without_one(matrix):
    rows = matrix.load()
    everywhere = {row.torch for row in rows if row.runner.hosted and row.env == "suite" and not row.args}
    assert everywhere >= {row.torch for row in rows if row.torch and row.env != "sample"}


def test_each_supported_torch_has_a_row_with_what_its_wheel_requires(matrix):
    rows = {row.torch: row for row in matrix.load() if row.env == "sample"}
    assert list(rows) == list(VERSIONS)
    run = script("-m", "tox", "config", "-e", ",".join(row.tox_env for row in rows.values()), "-k", "deps", "commands")
    assert run.returncode == 0, run.stdout + run.stderr
    sections = {section.partition("]")[0]: section for section in run.stdout.split("[testenv:")[1:]}
    for version, row in rows.items():
        deps = sections[row.tox_env].partition("commands")[0]
        assert re.findall(r"(\S+==\S+)", deps) == [f"torch=={version}", f"triton=={VERSIONS[version]}"]
        assert "--variants" in sections[row.tox_env]
        assert row.args == []


def test_nothing_in_ci_accepts(matrix):
    for row in matrix.load():
        assert "ACCEPT" not in shlex.join(row.command()), row
    assert "EXPECTTEST_ACCEPT" not in (ROOT / ".github/workflows/conformance.yml").read_text()
    assert "\nunset EXPECTTEST_ACCEPT" in (ROOT / ".ci/run").read_text()
    assert 'os.environ.pop("EXPECTTEST_ACCEPT", None)' in (CI / "job.py").read_text()


def test_code_of_each_torch_is_stored_from_a_run_of_the_whole_suite(matrix):
    """By a script that reads the runs: no job of the workflow accepts while it compares."""
    text = (ROOT / ".github/workflows/accepted.yml").read_text()
    rows = {row.name: row for row in matrix.load()}
    named = re.findall(r'row: "([^"]+)"', text)
    assert {rows[name].torch for name in named} == {
        row.torch for row in rows.values() if row.torch and row.env != "sample"
    }
    assert all(not rows[name].args for name in named)
    assert "EXPECTTEST_ACCEPT" not in text
    assert "ci/tox -e accepted -- artifacts" in text


def test_workflow_is_up_to_date():
    run = script("ci/workflow.py", "--check")
    assert run.returncode == 0, run.stdout + run.stderr


def test_stale_workflow_is_shown_as_a_diff_and_not_written(tmp_path):
    shutil.copytree(CI, tmp_path / "ci")
    file = tmp_path / ".github/workflows/conformance.yml"
    file.parent.mkdir(parents=True)
    file.write_text("old\n")
    run = script(str(tmp_path / "ci/workflow.py"), "--check")
    assert run.returncode == 1
    assert "-old" in run.stdout
    assert "python ci/workflow.py" in run.stderr
    assert file.read_text() == "old\n"


def test_job_lists_each_row_once(matrix):
    run = script("ci/job.py", "--list")
    assert run.returncode == 0, run.stderr
    names = [line.split()[0] for line in run.stdout.splitlines() if not line.startswith(" ")]
    assert names == [row.name for row in matrix.load()]


def test_job_prints_the_command_of_a_row():
    run = script("ci/job.py", "--print", "cuda-2.13")
    assert run.stdout.startswith("ci/tox -e suite-torch2.13 -- --require-device --device cuda --junitxml="), run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "unknown row 'nosuch': known are"),
        ([], "which row?"),
        (["lint", "--all-here"], "leave 'lint' out, or --all-here"),
        (["cuda-2.11", "--short"], "'cuda-2.11' is no row with a short form"),
        (["lint", "--turn", "2"], "--all and --turn choose what --short runs: add --short"),
    ],
)
def test_job_refuses_what_it_does_not_know(arguments, message):
    run = script("ci/job.py", *arguments)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


ROW = '[runner.r]\nlabels = "l"\n[[row]]\nname = "a"\nrunner = "r"\nenv = "suite"\nminutes = 1\nholds = "all"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROW + ROW.partition("\n[[row]]")[1].strip() + ROW.partition("[[row]]")[2], "row a: another row has this name"),
        (ROW.replace('runner = "r"', 'runner = "s"'), "row a: unknown runner 's'; known are r"),
        (ROW.replace('"a"', '"A b"'), "a name consists of"),
        (ROW + "shard = 1\n", "row a: unknown key 'shard'; known are name, runner, env"),
        (ROW.replace("minutes = 1\n", ""), "row a: the key 'minutes' is missing"),
    ],
)
def test_wrong_matrix_names_the_row(matrix, tmp_path, text, message):
    file = tmp_path / "matrix.toml"
    file.write_text(text)
    with pytest.raises(matrix.MatrixError) as error:
        matrix.load(file)
    assert message in str(error.value)


def test_ci_runs_the_short_form_of_rows_that_run_on_any_machine(matrix):
    short = [row for row in matrix.load() if row.short]
    assert {row.env for row in short if not row.turn} == {"lint", "selftests", "suite", "models"}
    assert all(row.runner.name == "hosted" for row in short)
    assert '\nexec python3 ci/job.py --short "$@"\n' in (ROOT / ".ci/run").read_text()


def test_successive_commits_run_all_rows_that_have_a_turn(matrix):
    short_run = module("short_run")
    rows = matrix.load()
    every = {row.name for row in rows if row.short}
    for first in range(matrix.TURNS):
        turns = [(first + number) % matrix.TURNS + 1 for number in range(matrix.TURNS)]
        assert {row.name for turn in turns for row in short_run.chosen(rows, turn)} == every
    assert {row.name for row in short_run.chosen(rows, None)} == every


def test_what_a_short_form_leaves_out_is_in_a_row(matrix):
    """Each run of a short form is a part of its own row, so the whole row has what it leaves out."""
    for row in matrix.load():
        for arguments in row.short:
            assert not row.args or arguments[: len(row.args)] == row.args, row


SHORT = """
import sys
sys.path.insert(0, {ci!r})
import bootstrap, matrix, short_run
from pathlib import Path
bootstrap.ROOT = Path({root!r})
matrix.Row.short_commands = lambda row: [["-c", *arguments] for arguments in row.short]
rows = matrix.load(Path({root!r}, "matrix.toml"))
sys.exit(short_run.run(rows, short_run.chosen(rows, 1), sys.executable))
"""


def test_short_form_runs_all_and_names_what_it_left_out(tmp_path):
    green, red = "print('== 3 passed in 0.10s ==')", "print('== 1 failed in 0.10s =='); raise SystemExit(3)"
    more = '\n[[row]]\nname = "b"\nrunner = "r"\nenv = "suite"\nminutes = 1\nholds = "the rest"\n'
    (tmp_path / "matrix.toml").write_text(ROW + f"short = {[[red], [green]]}" + more)
    run = script("-c", SHORT.format(ci=str(CI), root=str(tmp_path)))
    assert run.returncode == 1, run.stderr
    assert "== 3 passed in 0.10s ==" in run.stdout
    end = run.stdout[run.stdout.index("=== all in") :].splitlines()
    assert re.search(r" FAILED \(3\) +0 s  1 failed in 0.10s$", end[1])
    assert re.search(r" ok +0 s  3 passed in 0.10s$", end[2])
    assert end[-2].startswith("  a ")
    assert ", without what " in end[-2]
    assert end[-1].split(maxsplit=1) == ["b", "the rest"]


@pytest.mark.parametrize(
    ("change", "code", "status", "said"),
    [
        ("", "print('== 3 skipped in 0.10s ==')", 1, "FAILED (5)"),
        ("", "print('== 1 xfailed in 0.10s ==')", 0, " ok "),
        ("machine = 'pdp11'\n", "raise SystemExit(1)", 0, "a: not run: needs a machine with pdp11"),
        ("enabled = 'GPUS'\n", "raise SystemExit(1)", 0, "a: not run: needs a machine with r"),
        ("python", "raise SystemExit(0)", 1, "a: FAILED: needs Python 3.12, and this machine has no Python"),
    ],
)
def test_only_a_row_of_another_machine_may_run_nothing(tmp_path, change, code, status, said):
    """Tests of which each is skipped show nothing, and a machine without the row's Python lacks something."""
    text = ROW if change == "python" else ROW.replace("[[row]]", f"{change}[[row]]")
    (tmp_path / "matrix.toml").write_text(f"{text}turn = 1\npython = '3.12'\nexact_python = true\nshort = {[[code]]}\n")
    lines = SHORT.format(ci=str(CI), root=str(tmp_path))
    found = "None" if change == "python" else "sys.executable"
    replaced = f"short_run.all_here.interpreters.find_python = lambda _: {found}\nshort_run.turns.note = print\n"
    run = script("-c", lines.replace("rows = ", f"{replaced}rows = ", 1))
    assert run.returncode == status, run.stdout + run.stderr
    assert said in run.stdout


def test_a_turn_uses_the_running_python_and_ci_keeps_no_environment_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "1")
    code = "import sys; print(sys.executable); print('== 3 passed in 0.10s ==')"
    (tmp_path / "matrix.toml").write_text(f"{ROW}turn = 1\npython = '3.99'\nshort = {[[code]]}\n")
    kept, dropped = tmp_path / ".tox/other", tmp_path / ".tox/suite"
    kept.mkdir(parents=True)
    dropped.mkdir()
    run = script("-c", SHORT.format(ci=str(CI), root=str(tmp_path)))
    assert run.returncode == 0, run.stdout + run.stderr
    assert sys.executable in run.stdout.splitlines()
    assert (kept.exists(), dropped.exists()) == (True, False)


def test_bootstrap_says_what_is_missing_for_cpu_kernels(matrix, monkeypatch):
    bootstrap = module("bootstrap")
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    monkeypatch.setattr(bootstrap.sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    compiler, headers = bootstrap.missing_for_cpu_kernels()
    assert "there is no C++ compiler (no-such-compiler -O2)" in compiler
    assert "there are no Python headers (/nowhere/Python.h)" in headers


def test_bootstrap_without_venv_is_one_sentence(matrix, monkeypatch):
    bootstrap = module("bootstrap")
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SystemExit) as error:
        bootstrap.python_with_tox()
    assert "cannot create virtual environments" in str(error.value)
