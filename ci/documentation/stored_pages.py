"""The pages that commands write from what is stored: the site has them as they are now.

docs/ has a copy of each for readers of the repository, and for `conformance docs`. Write these copies anew with

    python ci/documentation/stored_pages.py

FROM_RUNS names pages that come from a run or from measurements. ci/words.py counts the words of neither.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from conformance.devices.torch_releases import CHANGES

ROOT = Path(__file__).resolve().parents[2]
#: Page → the command that writes it.
COMMANDS = {
    "known-bugs": ["list", "--bugs", "--package"],
    **{page: ["compare", *releases, "conformance/ops", "--markdown"] for page, releases in CHANGES.items()},
}
#: Page → what writes it, or holds it to the data.
FROM_RUNS = {
    "missed-optimisations": "python -m conformance list --missed RUN",
    "flip": "python -m conformance bench flip/ … --markdown docs/flip.md",
    "found": "python benchmarks/published_bugs.py --page > docs/found.md",
    "same-bits-operators": "python benchmarks/same_bits.py --page RUN … > docs/same-bits-operators.md",
    "accuracy": "PYTHONPATH=. python benchmarks/accuracy.py --page > docs/accuracy.md",
}


def write_pages(folder: Path) -> None:
    """Writes each page into a folder."""
    started = {
        name: subprocess.Popen([sys.executable, "-m", "conformance", *words], stdout=subprocess.PIPE, cwd=ROOT)
        for name, words in COMMANDS.items()
    }
    for name, process in started.items():
        text, _ = process.communicate()
        if process.returncode:
            sys.exit(f"python -m conformance {' '.join(COMMANDS[name])} ended with status {process.returncode}")
        (folder / f"{name}.md").write_bytes(text)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_pages(ROOT / "docs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
