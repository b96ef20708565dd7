"""Runs all cases on the device acme, and prints how each one ended, by reason.

    python run_all.py -n 16                     # options go to pytest
    python run_all.py --table RUN [RUN …]       # only the table, of run folders (`.conformance/runs/…`)

Exit status 1: a case failed without a reason, or fewer than 90 % of the cases ran natively.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WANTED = 0.9


def ending(item: dict[str, Any]) -> tuple[str, str]:
    """How an item ended, and the reason: of the first check that did not pass, numerics before the others."""
    checks = item["checks"]
    native = "native" if item.get("evidence") == "native" else "not run"
    order = ("compile", "numerics", "requirements", "code", "device")
    for name in sorted(checks, key=order.index):
        result = checks[name]
        outcome, reason = result["outcome"], result.get("detail", "")
        if outcome in ("failed", "stale"):
            return "failed", f"{name}: {reason}"
        if outcome == "excluded":
            return "excluded", reason.partition(" is for ")[2] or reason
        if outcome == "known":
            return f"{native}, known failure", f"{name}: {reason}"
        if outcome == "skipped" and name in ("compile", "numerics"):
            return "cannot", reason
    return native, "passed"


def items_of(runs: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """The items of some runs by case; of a case that several have, the last one."""
    found = {}
    for run in runs:
        for path in sorted((run / "items").rglob("*.json")):
            item = json.loads(path.read_text(encoding="utf-8"))
            if item["target"].startswith("acme"):
                found[item["case"]] = item
    return found


def print_table(items: dict[str, dict[str, Any]]) -> int:
    """Prints the counts. Returns the exit status."""
    counts = Counter(ending(item) for item in items.values())
    native = sum(item.get("evidence") == "native" for item in items.values())
    for (how, reason), count in sorted(counts.items(), key=lambda entry: (entry[0][0], -entry[1])):
        print(f"{count:6,}  {how:<22}  {' '.join(reason.split())[:150]}")
    failed = sum(count for (how, _), count in counts.items() if how == "failed")
    share = native / max(1, len(items))
    print(f"{len(items):6,}  cases, of which {native:,} ran natively ({share:.1%}); {failed:,} failed without a reason")
    return int(failed > 0 or share < WANTED)


def main(words: list[str]) -> int:
    if words[:1] == ["--table"]:
        return print_table(items_of(map(Path, words[1:])))
    # With "=": pytest takes a folder after a blank for the tests, and looks there for the root of the project.
    known = f"--known-failures={HERE / 'known_failures'}"
    command = [sys.executable, "-m", "pytest", "--pyargs", "conformance.ops", "--device", "acme", "-q", *words]
    ran = subprocess.run([*command, known, "--save-run", "acme"], check=False)
    if ran.returncode not in (0, 1):
        return ran.returncode
    return print_table(items_of([Path(".conformance/runs/acme")]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
