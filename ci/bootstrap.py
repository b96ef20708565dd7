"""What a fresh machine needs before anything else runs: a Python that is new enough, and tox in a venv of its own.

Uses the standard library alone, and syntax that an old Python still reads, so that it can say what is missing.
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
    """Goes on in a newer Python of this machine where the running one is too old; exits where there is none."""
    if sys.version_info >= OLDEST:
        return
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer:
            os.execv(newer, [newer, *sys.argv])
    sys.exit(
        f"Python 3.{OLDEST[1]} or newer is needed; {sys.executable} is {sys.version.split()[0]}, "
        "and no newer one is on the path. Install one with its venv and headers."
    )


def python_with_tox():
    """The path of a Python that has tox, in .tox/; made at the first call, made again when it was left half-made."""
    _require_venv()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = ROOT / ".tox" / f".bootstrap-{version}"
    python, stamp = folder / "bin" / "python", folder / TOX
    folder.parent.mkdir(exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        # A folder that was moved or copied along with the checkout has scripts that point elsewhere, hence the text.
        if not stamp.exists() or stamp.read_text() != str(folder) or not python.exists():
            print(f"Setting up {TOX} in {folder.relative_to(ROOT)}, once", file=sys.stderr, flush=True)
            _call([sys.executable, "-m", "venv", "--clear", str(folder)], "The venv could not be made")
            _call([str(python), "-m", "pip", "install", "--quiet", TOX], f"pip could not install {TOX}")
            stamp.write_text(str(folder))
    return str(python)


def missing_for_cpu_kernels():
    """One sentence for each thing without which no cpu kernel can be built here; what needs none still runs."""
    compiler = os.environ.get("CXX") or "g++"
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    missing = []
    if not shutil.which(compiler.split()[0]):
        missing.append(f"no C++ compiler ({compiler}): install g++, or set CXX to another")
    if not header.exists():
        missing.append(f"no Python headers ({header}): install python3-dev or python3-devel")
    return missing


def _require_venv():
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        sys.exit(
            f"{sys.executable} cannot make virtual environments: its venv or ensurepip is missing. "
            f"Install it (Debian and Ubuntu: apt install python{version}-venv)."
        )


def _call(command, failure):
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        sys.exit(f"{failure}: what stands above says why. The command was: {' '.join(command)}")


@contextlib.contextmanager
def _locked(path):
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
