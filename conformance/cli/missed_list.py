"""`list --missed`: the optimisations that Inductor misses, by its reasons; from a run, without compiling again."""

from __future__ import annotations

import json

from conformance.cli.run_options import find_run
from conformance.expectations.missed_optimisations import markdown, sections
from conformance.storage.runs import RunError

#: The first entry of `--json`; docs/formats.md describes the rest.
FORMAT = "conformance missed 1"


def list_missed(run: str, *, as_json: bool) -> int:
    """Prints the missed optimisations of a run as Markdown or JSON. Raises RunError."""
    items = list(find_run(run).items())
    if not any("requirements" in item.checks for item in items):
        raise RunError(
            f"no item of the run {run} has facts: each was left out, or ran without the check `requirements`"
        )
    if as_json:
        rows = [{"case": item.case, "target": item.target, **missed} for item in items for missed in item.missed]
        print(json.dumps({"format": FORMAT, "missed": rows}, indent=1))
        return 0
    versions = sorted({item.torch.partition("+")[0] for item in items})
    cases, used_targets = {item.case for item in items}, {item.target for item in items}
    about = f"torch {', '.join(versions)}; {len(cases)} cases on {len(used_targets)} targets."
    print("\n".join(markdown(sections(items), about)))
    return 0
