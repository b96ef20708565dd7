#!/usr/bin/env python3
"""Runs the examples in examples/ as their authors do: with the wheels of this checkout, outside it.

    python ci/examples.py                             # all
    python ci/examples.py losses -- --target cpu_avx2 # one; pytest gets what follows --
    python ci/examples.py --wheels dist               # with wheels that are built already

Makes a virtual environment that sees the packages of this Python (torch, Triton, pytest), and neither this checkout nor
its plugin. Compares the figures that the example's README promises with those of the run, and then writes its report.
Installs there: the wheel of the harness, other pytest plugins that a project may have, the example, and for `vendor`
the wheel of the suite. Exit status 1 if a test fails, or if the checkout was tested instead of the wheels.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Plugins that many projects have. Each must leave our items alone: randomly shuffles tests and seeds, cov measures,
#: timeout and rerunfailures replace and repeat what runs a test, xdist runs it in other processes.
PLUGINS = ("pytest-randomly", "pytest-cov", "pytest-timeout", "pytest-rerunfailures", "pytest-xdist>=3.8")

#: `--fresh`: results of an earlier run do not count, and so the figures are those of a first run.
COMMON = ("--strict-run", "--fresh", "--timeout", "600", "--reruns", "1")
#: Options of pytest for each example, with the plugins in use. The ini files of all but `vendor` make warnings
#: errors.
OPTIONS = {
    "losses": ["-n", "2", *COMMON, "--cov", "losses"],
    "passes": ["-n", "2", *COMMON, "--cov", "engine"],
    "operators": ["-n", "2", *COMMON, "--cov", "gates"],
    "vendor": ["-n", "2", "--quick", "-k", "flip"],
}
#: What the other plugins print when they are in use.
IN_USE = ("randomly-", "cov-", "timeout-", "rerunfailures-", "xdist-", "Using --randomly-seed=")
#: Texts of the output without which an example did not test what it is there for.
EVIDENCE = {
    "losses": ("known failures", "losses/focal.py", *IN_USE),
    "passes": ("numerics passed", "engine/passes.py", *IN_USE),
    "operators": ("numerics passed", "gates/in_triton.py", *IN_USE),
    "vendor": ("numerics passed", "ran natively (100.0%); 0 failed without a reason"),
}


def run(*words: str | Path, cwd: Path | None = None) -> None:
    """Raises subprocess.CalledProcessError if the command fails; then its output has been printed."""
    subprocess.run([str(word) for word in words], cwd=cwd, check=True, stdin=subprocess.DEVNULL)


#: The distributions without the cases.
PARTS = (".", "parts/generator", "parts/lab", "parts/page")


def build(folder: Path, projects: Sequence[str]) -> None:
    """Builds wheels into the folder, each from its sdist if it has one: nothing that is left in build/ gets into them.

    What the build prints is a line for each of thousands of files, so it is shown if the build fails.
    """
    for project in projects:
        kind = ["--wheel"] if Path(project).parent.name == "parts" else []
        command = [sys.executable, "-m", "build", *kind, "--outdir", folder, ROOT / project]
        built = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if built.returncode:
            print(built.stdout)
            built.check_returncode()


def new_environment(folder: Path) -> Path:
    """Returns the Python of a new virtual environment that sees the packages of this one.

    A path in a .pth file does not run the .pth files in it: so an editable installation of this checkout is not seen.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    seen = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    seen += [each for each in sys.path if each.endswith(("site-packages", "dist-packages"))]
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "outer.pth").write_text("\n".join(dict.fromkeys(seen)) + "\n", encoding="utf-8")
    return folder / "bin" / "python"


def install(python: Path, *words: str | Path) -> None:
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", python, "install", *words)


def promised(readme: str) -> list[str]:
    """The lines that a README shows below its first `$ pytest -n auto`: what a run prints at its end."""
    found = re.search(r"^\$ pytest -n auto\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    return found[1].splitlines() if found else []


def missing(promise: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The promised lines that no line of the output has."""
    return [each for each in promise if not any(re.search(rf"(?<!\d){re.escape(each)}(?! \+)", line) for line in lines)]


def test(name: str, python: Path, folder: Path, options: Sequence[str]) -> int:
    """Runs pytest in the folder, and returns its exit status; or 1 if it passed without the evidence."""
    env = {key: value for key, value in os.environ.items() if key not in ("EXPECTTEST_ACCEPT", "PYTHONPATH")}
    command = [str(python), "-m", "pytest", *OPTIONS[name], *options]
    if name == "vendor":  # as its README does, from the folder above
        command[1:3] = [str(folder / "run_all.py")]
        folder = folder.parent
    print(f"{name}: {shlex.join(command)}", flush=True)
    where = subprocess.run(
        [str(python), "-c", "import conformance; print(conformance.__file__)"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    if not Path(where).is_relative_to(python.parent.parent):
        print(f"{name}: {where} would be tested, and not the wheel", file=sys.stderr)
        return 1
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait():
        return process.returncode
    if re.search(r"\d+ rerun", lines[-1]):
        print(f"{name}: passed only when it was repeated", file=sys.stderr)
        return 1
    for text in EVIDENCE[name]:
        if not any(text in line for line in lines):
            print(f"{name}: passed, but no line has {text!r}: it did not test what it is for", file=sys.stderr)
            return 1
    readme = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    if not options and (wrong := missing(promised(readme), lines)):
        print(
            f"{name}: its README promises {wrong[0]!r}, and no line of the run has it: mend one of them",
            file=sys.stderr,
        )
        return 1
    return reported(name, python, folder, env)


def reported(name: str, python: Path, folder: Path, env: dict[str, str]) -> int:
    """Writes the report of the run as the example's workflow does, and returns the exit status."""
    page = folder / ".conformance" / "report.html"
    status = subprocess.run([python, "-m", "conformance", "report", "-o", page], cwd=folder, env=env, check=False)
    if status.returncode or not page.exists():
        print(f"{name}: passed, and `python -m conformance report` wrote no report of it", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="EXAMPLE", help=f"one of {', '.join(OPTIONS)}; all without it")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="take the wheels from this folder")
    words = sys.argv[1:]
    own, options = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    arguments = parser.parse_args(own)
    names = arguments.names or list(OPTIONS)
    if unknown := [name for name in names if name not in OPTIONS]:
        parser.error(f"there is no example {unknown[0]!r}: there are {', '.join(OPTIONS)}")
    with tempfile.TemporaryDirectory(prefix="examples-") as temporary:
        folder = Path(temporary)
        wheels = arguments.wheels or folder / "wheels"
        if not arguments.wheels:
            build(wheels, [*PARTS, "suite"] if "vendor" in names else PARTS)
        failed = []
        for name in names:
            python = new_environment(folder / f"{name}-environment")
            copy = folder / name
            shutil.copytree(ROOT / "examples" / name, copy, ignore=shutil.ignore_patterns(".conformance", "*.egg-info"))
            ours = [each for each in wheels.glob("*.whl") if name == "vendor" or "_suite-" not in each.name]
            # pip leaves a wheel out if the same version is installed, and it also sees the checkout's installation.
            install(python, "--force-reinstall", "--no-deps", *ours)
            install(python, *ours, *PLUGINS)
            install(python, copy if name == "vendor" else f"{copy}[test]")
            if test(name, python, copy, options):
                failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
