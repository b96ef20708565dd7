"""Measures how many operators of PyTorch generate code without a device, and whether it is the device's code.

    python benchmarks/opinfo.py --target cuda_sm90 --out deviceless.json
    python benchmarks/opinfo.py --target cuda_sm90 --native --out native.json     # on the device
    python benchmarks/opinfo.py --compare native.json deviceless.json

It compiles the first float32 sample of every OpInfo entry, with gradients if the entry has any. On a machine with a
device, hide the device from the deviceless run: CUDA_VISIBLE_DEVICES= python benchmarks/opinfo.py …
`--shard 1/4` takes every fourth entry; `--compare a.json,b.json c.json` merges files with commas between them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from conformance.capture.deviceless.prepare import prepare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda_sm90", help="the target (default: cuda_sm90)")
    parser.add_argument("--native", action="store_true", help="generate on the device, which has to be here")
    parser.add_argument("--only", default="", help="only entries with this in their name")
    parser.add_argument("--shard", default="1/1", metavar="N/M", help="every M-th entry, from the N-th on")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--compare", nargs=2, metavar=("NATIVE", "DEVICELESS"), help="compare two files of --out")
    options = parser.parse_args()
    if options.compare:
        return compare(*(merged(names) for names in options.compare))
    results = generate(options.target, native=options.native, only=options.only, shard=options.shard)
    if options.out:
        options.out.write_text(json.dumps(results), encoding="utf-8")
    counts = Counter(result["outcome"] for result in results.values())
    print(f"{options.target}: {len(results)} entries: {dict(counts)}")
    for name, result in results.items():
        if result["outcome"] == "raises":
            print(f"  {name}: {result['error'][:300]}")
    return 0


def generate(target_name: str, *, native: bool, only: str, shard: str) -> dict[str, dict[str, str]]:
    from conformance.devices.targets import targets

    target = targets()[target_name]
    prepare((target.device,) if native and target.device != "cpu" else ())
    from sweep import sweep_cases

    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.normalize.wrapper_modules import normalise

    number, of = map(int, shard.split("/"))
    results = {}
    for index, case in enumerate(sweep_cases("f32")):
        if only not in case.name or index % of != number - 1:
            continue
        start = time.perf_counter()
        try:
            with capture(CaseRequest(case, target, "native" if native else "deviceless")) as captured:
                modules = captured.capture.modules
                text = "\n".join(normalise(module.code, target.device) for module in modules)
                raw = "\n".join(module.code for module in modules)
            outcome = {"outcome": "generates" if text else "no code", "text": text, "raw": raw}
        except Exception as error:  # noqa: BLE001 - the error is the result
            lines = str(error).splitlines() or [""]
            outcome = {"outcome": "raises", "error": f"{type(error).__name__}: {' | '.join(lines[:4])}"}
        results[case.name] = outcome | {"seconds": round(time.perf_counter() - start, 3)}
        print(f"{case.name}: {outcome['outcome']}", file=sys.stderr, flush=True)
    return results


def merged(names: str) -> dict[str, dict[str, str]]:
    results: dict[str, dict[str, str]] = {}
    for name in names.split(","):
        results |= json.loads(Path(name).read_text(encoding="utf-8"))
    return results


def compare(native: dict[str, dict[str, str]], deviceless: dict[str, dict[str, str]]) -> int:
    counts: Counter[str] = Counter()
    for name, there in native.items():
        here = deviceless.get(name, {"outcome": "missing", "error": "missing"})
        if there["outcome"] == "raises":
            counts["raises natively"] += 1
        elif here["outcome"] in ("raises", "missing"):
            counts["raises without the device"] += 1
            print(f"{name}: without the device: {here['error'][:300]}")
        elif there["text"] == here["text"]:
            counts["equal" if there["text"] else "no code in both"] += 1
        else:
            counts["differ"] += 1
            print(f"{name}: differs")
            _show_difference(there["text"], here["text"])
    print(dict(counts))
    return 1 if counts["differ"] or counts["raises without the device"] else 0


def _show_difference(there: str, here: str) -> None:
    import difflib

    lines = difflib.unified_diff(there.splitlines(), here.splitlines(), "native", "deviceless", lineterm="", n=1)
    for line in list(lines)[:30]:
        print(f"    {line}")


if __name__ == "__main__":
    sys.exit(main())
