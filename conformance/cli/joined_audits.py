"""`report --audit`: which opt-outs are idle in all of several runs with --audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.cli.run_options import find_run
from conformance.harness.ending.audit_report import joined_report
from conformance.storage.runs import AUDIT, RunError, refuse_newer_format


def join_audits(words: Sequence[str]) -> int:
    """Prints which opt-outs are idle in all of the runs. Returns 1 if one is idle for all its cases. Raises RunError.

    `words`: folders or names of runs with --audit, or files audit.json.
    """
    report = joined_report([_audit(word) for word in words])
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
