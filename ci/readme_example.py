#!/usr/bin/env python3
"""Tries the README's example "Add an operator" as a new user would, with the package that this Python has installed.

    python ci/readme_example.py FOLDER      # exit status 1, and pytest's output, if it does not work as printed

Writes the conftest and the file of cases that README.md prints into the empty FOLDER. Runs the command that README.md
prints, which stores code, and then runs pytest again: everything has to pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
HEADING = "### Add an operator"
FILE = "test_flip.py"


def parts(readme: str) -> tuple[str, str, list[str]]:
    """The text of conftest.py, the text of the file of cases, and the words after EXPECTTEST_ACCEPT=new."""
    section = readme.partition(f"{HEADING}\n")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    [conftest] = re.findall(r"`(pytest_plugins = [^`]+)`", section)
    [command] = re.findall(r"`EXPECTTEST_ACCEPT=new (pytest FILE)`", section)
    return conftest + "\n", code, shlex.split(command.replace("FILE", FILE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    conftest, code, words = parts(README.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty: name a new folder")
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    (folder / FILE).write_text(code, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "EXPECTTEST_ACCEPT")}
    for accept in ({"EXPECTTEST_ACCEPT": "new"}, {}):
        print(shlex.join([*(f"{name}={value}" for name, value in accept.items()), *words]), flush=True)
        ran = subprocess.run([sys.executable, "-m", *words], cwd=folder, env=env | accept, check=False)
        if ran.returncode:
            print(f"the README's example ended with status {ran.returncode}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
