"""Times the answers of `watch` beside a bare script: after a saved case, and after a saved file of Inductor.

    python benchmarks/loop_watch.py

Seconds from the save to the end of the answer, and their ratio to the script's. All are measured in turns, the median
of three. The case has a constant that was never compiled before, so its C++ kernel is built.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conformance.devices.environment import torch_build
from conformance.sources.torch_source import installed_files

BARE = "import torch\n@torch.compile\ndef f(x): return x * {constant}\nprint(f(torch.randn(3, 4)))\n"
CASE = """from conformance import case, tensor

@case(x=tensor(20))
def test_double(x):
    return x * {constant}
"""
TARGETS = ("cpu_avx2", "cuda_sm90")
EDITED = "_inductor/lowering.py"
ROUNDS = 3
#: Seconds in which a layer makes beforehand what the next answer needs.
IDLE = 5.0


class Watching:
    """A process of `watch`."""

    def __init__(self, project: Path, target: str, source: Path) -> None:
        self._file = project / f"{target}.txt"
        command = [sys.executable, "-m", "conformance", "watch", "double/double", "--target", target]
        with self._file.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--torch-source", str(source)], cwd=project, stdout=output, stderr=output
            )
        self._answers = 0
        self.wait()

    def wait(self) -> None:
        self._answers += 1
        while self._file.read_text().count("waiting for a save") < self._answers:
            if self._process.poll() is not None:
                sys.exit(self._file.read_text())
            time.sleep(0.01)

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def measure(rounds: int = ROUNDS) -> list[tuple[str, float, float]]:
    """(what, seconds, ratio to the bare script) for the script, and for each target and kind of save."""
    with tempfile.TemporaryDirectory() as folder:
        project, source = Path(folder, "project"), Path(folder, "source")
        edited = _source(source)
        text, case = edited.read_text(), project / "test_double.py"
        project.mkdir()
        (project / "pytest.ini").write_text("[pytest]\n")
        case.write_text(CASE.format(constant=2))
        seconds: dict[str, list[float]] = {}
        _run_bare(project, 1.5)  # builds the precompiled header
        for number in range(rounds):
            constant = time.time_ns() / 1e9
            seconds.setdefault("bare script", []).append(_run_bare(project, constant))
            for target in TARGETS:
                watching = Watching(project, target, source)
                try:
                    for name, file, new in (
                        ("case", case, CASE.format(constant=constant + TARGETS.index(target))),
                        ("file of Inductor", edited, f"{text}\n# {target} {number}\n"),
                    ):
                        time.sleep(IDLE)
                        start = time.perf_counter()
                        _save(file, new)
                        watching.wait()
                        seconds.setdefault(f"saved {name}, {target}", []).append(time.perf_counter() - start)
                finally:
                    watching.end()
    bare = statistics.median(seconds["bare script"])
    return [(name, statistics.median(each), statistics.median(each) / bare) for name, each in seconds.items()]


def _run_bare(folder: Path, constant: float) -> float:
    """The seconds of a script with torch.compile alone."""
    script = folder / "bare.py"
    script.write_text(BARE.format(constant=constant))
    start = time.perf_counter()
    subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _source(folder: Path) -> Path:
    """Makes a folder with the Python files of the installed torch, all but one as links. Returns that one."""
    torch = torch_build().folder
    for path in installed_files(torch):
        file = folder / "torch" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(torch / path)
    edited = folder / "torch" / EDITED
    _save(edited, edited.read_text())
    return edited


def _save(file: Path, text: str) -> None:
    new = file.with_name("new")
    new.write_text(text)
    new.replace(file)


if __name__ == "__main__":
    for what, time_, ratio in measure():
        print(f"{what:36} {time_:6.2f} s {ratio:6.2f}")
