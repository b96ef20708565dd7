"""`audit`: which opt-outs are idle in all of several runs with --audit."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from conformance.cli.run_options import find_run
from conformance.harness.audit_report import joined_report
from conformance.storage.runs import AUDIT, RunError, refuse_newer_format

DESCRIPTION = """\
Join the audits of several runs: with other seeds, on other machines, with other
torch versions. An opt-out that one run needs is needed. The exit status is 1 if
an opt-out is idle for all its cases in all runs."""

EXAMPLES = """\
examples:
  pytest --audit --save-run one; pytest --audit --seed 1 --save-run two
  python -m conformance audit one two
  python -m conformance audit one from_the_gpu/audit.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="a run's folder, its name below .conformance/runs, or an audit.json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises RunError."""
    report = joined_report([_audit(word) for word in arguments.runs])
    print("\n".join(report.lines))
    return int(report.failed)


def _audit(word: str) -> dict[str, Any]:
    path = Path(word) if word.endswith(".json") else find_run(word).folder / AUDIT
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        refuse_newer_format(str(path), int(data.get("format", 1)))
        joined_report([data])
    except FileNotFoundError:
        raise RunError(f"there is no {path}; a run with --audit writes it") from None
    except RunError:
        raise
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path} is no audit of this version of the suite; write it again with: pytest --audit"
        ) from error
    return dict(data)
