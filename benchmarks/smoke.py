"""Runs every benchmark once in its smallest form, so that a script that nobody runs does not rot.

    python benchmarks/smoke.py                 # all of them
    python benchmarks/smoke.py --only memory   # those with this text in their name
    python benchmarks/smoke.py --list

smoke.toml has the arguments. A script that needs what is not here is imported, and asked for --help if it has one.
`package` names a package that its import needs: without that one it is only compiled.
Exit status 1 if one fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
SECONDS = 300
_MAIN = '__name__ == "__main__"'
_COMPILE = "import pathlib, sys; compile(pathlib.Path(sys.argv[1]).read_text(encoding='utf-8'), sys.argv[1], 'exec')"
_IMPORT = "import runpy, sys; sys.path.insert(0, sys.argv[2]); runpy.run_path(sys.argv[1], run_name='imported')"


def scripts() -> set[str]:
    """The scripts with a main, relative to this folder, without this one."""
    found = (file for file in FOLDER.rglob("*.py") if file != Path(__file__).resolve())
    return {file.relative_to(FOLDER).as_posix() for file in found if _MAIN in file.read_text(encoding="utf-8")}


def table() -> dict[str, dict[str, Any]]:
    return tomllib.loads((FOLDER / "smoke.toml").read_text(encoding="utf-8"))


def wrong_rows(rows: dict[str, dict[str, Any]], known: set[str]) -> list[str]:
    """What is wrong with the table, a line each."""
    return [
        *(f"{name}: it has no row" for name in sorted(known - rows.keys())),
        *(f"{name}: there is no such script" for name in sorted(rows.keys() - known)),
        *(
            f"{name}: give either args or needs"
            for name, row in rows.items()
            if len(row.keys() & {"args", "needs"}) != 1
        ),
    ]


def command(name: str, row: dict[str, Any], folder: str) -> list[str]:
    """`folder`: stands for {folder} in the arguments."""
    script = FOLDER / name
    if "args" in row:
        return [sys.executable, str(script), *(word.replace("{folder}", folder) for word in row["args"])]
    if "package" in row and importlib.util.find_spec(row["package"]) is None:
        return [sys.executable, "-c", _COMPILE, str(script)]
    if "ArgumentParser(" in script.read_text(encoding="utf-8"):
        return [sys.executable, str(script), "--help"]
    return [sys.executable, "-c", _IMPORT, str(script), str(script.parent)]


def run(name: str, row: dict[str, Any]) -> bool:
    """Runs one script, and prints its line; of one that fails, also the end of what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(name, row, folder)


def _run(name: str, row: dict[str, Any], folder: str) -> bool:
    begun = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    process = subprocess.Popen(
        command(name, row, folder), cwd=FOLDER.parent, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=SECONDS)
        passed, word = process.returncode == 0, "ok" if process.returncode == 0 else "FAILED"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own processes too: they hold the pipe
        output, _ = process.communicate()
        passed, word = False, "TIME"
    needs = f"  (needs {row['needs']})" if "needs" in row else ""
    print(f"{name:36} {word:6} {time.monotonic() - begun:6.1f} s{needs}", flush=True)
    if not passed:
        print("\n".join(f"    {line}" for line in output.splitlines()[-15:]), flush=True)
    return passed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="only scripts with this text in their name")
    parser.add_argument("--list", action="store_true", help="print the scripts with their arguments")
    options = parser.parse_args(arguments)
    rows = table()
    if wrong := wrong_rows(rows, scripts()):
        print("\n".join(wrong))
        return 1
    chosen = {name: row for name, row in rows.items() if options.only in name}
    if options.list:
        for name, row in chosen.items():
            print(name, *row.get("args", [f"(needs {row.get('needs')})"]))
        return 0
    if not chosen:
        parser.error(f"no script has {options.only!r} in its name")
    passed = [run(name, row) for name, row in chosen.items()]  # a list: all run, though one fails
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
