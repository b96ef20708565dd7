"""Prepares a fresh machine: finds a Python that is new enough, and installs tox into a venv of its own.

It uses only the standard library, and only syntax that an old Python can read: so it can say what is missing.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 10), (3, 14)
TOX = "tox==4.65.0"  # the last for Python 3.10


def require_python():
    """Restarts the script in a newer Python of this machine if the running one is too old. Exits if there is none."""
    if sys.version_info >= OLDEST:
        return
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer:
            os.execv(newer, [newer, *sys.argv])
    sys.exit(
        f"Python 3.{OLDEST[1]} or newer is needed, and {sys.executable} is {sys.version.split()[0]}. "
        "The path has no newer Python: install one, with its venv module and its headers."
    )


def python_with_tox():
    """Returns the path of a Python with tox, in .tox/. Installs it at the first call, and again if that was cut off."""
    _require_venv()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = ROOT / ".tox" / f".bootstrap-{version}"
    python, stamp = folder / "bin" / "python", folder / TOX
    folder.parent.mkdir(exist_ok=True)
    with _lock(folder.with_name(f"{folder.name}.lock")):
        # The stamp holds the folder's path: scripts of a venv that was moved with the checkout point elsewhere.
        if not stamp.exists() or stamp.read_text() != str(folder) or not python.exists():
            print(f"Setting up {TOX} in {folder.relative_to(ROOT)}, once", file=sys.stderr, flush=True)
            _run([sys.executable, "-m", "venv", "--clear", str(folder)], "venv could not create the environment")
            _run([str(python), "-m", "pip", "install", "--quiet", TOX], f"pip could not install {TOX}")
            stamp.write_text(str(folder))
    return str(python)


def missing_for_cpu_kernels():
    """Returns a message for each thing that is missing to build cpu kernels. Everything else runs without them."""
    compiler = os.environ.get("CXX") or "g++"
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    missing = []
    if not shutil.which(compiler.split()[0]):
        missing.append(f"there is no C++ compiler ({compiler}): install g++, or set CXX")
    if not header.exists():
        missing.append(f"there are no Python headers ({header}): install python3-dev or python3-devel")
    return missing


def _require_venv():
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        sys.exit(
            f"{sys.executable} cannot create virtual environments: its module venv or ensurepip is missing. "
            f"Install it (Debian and Ubuntu: apt install python{version}-venv)."
        )


def _run(command, failure):
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        sys.exit(f"{failure}: read the output above. The command was: {' '.join(command)}")


@contextlib.contextmanager
def _lock(path):
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
