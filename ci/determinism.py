"""Checks that snapshots depend only on the case, the target, torch and Triton.

    python ci/determinism.py                    # every variation on every case
    python ci/determinism.py --quick            # a few cases of each operator on four targets
    python ci/determinism.py --only reversed,hostile
    python ci/determinism.py --full             # also builds and runs cpu code that this machine can run
    python ci/determinism.py --stored           # a plain run only of items whose stored text is none, or another
    python ci/determinism.py conformance/ops/test_flip.py    # the cases of this file, instead of all operators

Runs the suite once unchanged and once for each variation below, compares the generated texts of all items byte for
byte, and prints a table and the first differences. Exit status: 1 if a text differs, 2 if a run failed.
With --stored, an item whose text in a varied run is the stored one needs no plain run: the suite compares a plain run's
text with the stored one. All other items run unchanged too, so what is stored wrongly is no difference.
The runs use a copy of the checkout, so you can edit files meanwhile. `--keep FOLDER` keeps the copy and the runs; the
next call with the same folder does not repeat finished runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ("conformance/ops",)

#: Not copied.
_IGNORED = shutil.ignore_patterns(".git", ".conformance", ".tox", ".venv", "__pycache__", ".pytest_cache", "*.egg-info")

#: Environment variables for `pytest_collection_modifyitems` below, in the processes that run the suite.
_REVERSED, _QUICK = "_CONFORMANCE_DETERMINISM_REVERSED", "_CONFORMANCE_DETERMINISM_QUICK"
#: A folder with the names of items that need not run (`_EQUAL`). The run writes those that it left out to `_LEFT`.
_STORED, _EQUAL, _LEFT = "_CONFORMANCE_DETERMINISM_STORED", "equal.json", "left.json"
_QUICK_TARGETS = ("cpu_avx2", "cpu_avx512", "cuda_sm90", "xpu_pvc")

#: Each of these would change generated code, or break it, if the suite did not drop it.
HOSTILE = {
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING": "1",
    "TORCHINDUCTOR_FREEZING": "1",
    "TORCHINDUCTOR_CPP_WRAPPER": "1",
    "TORCHINDUCTOR_COMBO_KERNELS": "1",
    "TORCHINDUCTOR_PERSISTENT_REDUCTIONS": "0",
    "TORCHINDUCTOR_COOPERATIVE_REDUCTIONS": "1",
    "TORCHINDUCTOR_EMULATE_PRECISION_CASTS": "1",
    "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES": "0",
    "TORCHINDUCTOR_SIZE_ASSERTS": "0",
    "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1",
    "TORCHINDUCTOR_CPP_SIMDLEN": "1",
    "TORCHINDUCTOR_SHAPE_PADDING": "0",
    "TORCHINDUCTOR_FORCE_SHAPE_PAD": "1",
    "TORCHINDUCTOR_MULTI_KERNEL": "1",
    "TORCH_COMPILE_JOB_ID": "another",
    "TORCHDYNAMO_DYNAMIC_SHAPES": "0",
    "TRITON_INTERPRET": "1",
    "TRITON_DEBUG": "1",
    "ATEN_CPU_CAPABILITY": "default",
    "OMP_NUM_THREADS": "5",
    "PYTORCH_TEST_WITH_INDUCTOR": "1",
    "LC_ALL": "C",
    "LANG": "tr_TR.UTF-8",
    "TZ": "Asia/Kathmandu",
    "USER": "somebody",
    "LOGNAME": "somebody",
}


@dataclass(frozen=True)
class Variation:
    """How a run differs from the plain one. A variable that is None is unset; `options` are options of pytest."""

    name: str
    description: str
    variables: dict[str, str | None] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    one_core: bool = False
    other_folder: bool = False
    one_by_one: bool = False  # a process for each target


PLAIN = Variation("plain", "nothing: the others are compared with this run")
_REVERSING = {_REVERSED: "1"}
_HOSTILE: dict[str, str | None] = {**HOSTILE, "HOME": None}
VARIATIONS = [
    Variation("again", "nothing: a second run"),
    Variation("third", "nothing: a third run"),
    Variation("hash_seed", "PYTHONHASHSEED=1", {"PYTHONHASHSEED": "1"}),
    Variation("reversed", "the order of the items is reversed", _REVERSING),
    Variation("one_worker", "-n 1", options=("-n", "1")),
    Variation("four_workers", "-n 4", options=("-n", "4")),
    Variation("folder", "another folder", other_folder=True),
    Variation("one_core", "one core (as with taskset)", one_core=True),
    Variation("threads", "OMP_NUM_THREADS=3", {"OMP_NUM_THREADS": "3"}),
    Variation("hostile", f"{len(_HOSTILE)} environment variables", _HOSTILE),
    Variation("alone", "each target in a process of its own", one_by_one=True),
    Variation(
        "together",
        "hash seed, order, -n 1, folder, one core and environment at once",
        _HOSTILE | _REVERSING | {"PYTHONHASHSEED": "2"},
        ("-n", "1"),
        one_core=True,
        other_folder=True,
    ),
]


class RunFailedError(RuntimeError):
    """A run of the suite gave no texts. The message shows the last lines that pytest printed."""


@dataclass
class Suite:
    """Copies of the checkout below `folder`, and runs of the suite in them."""

    folder: Path
    quick: bool = False
    full: bool = False
    stored: Path | None = None  # see _STORED
    cases: tuple[str, ...] = CASES

    def texts(self, variation: Variation) -> dict[str, str]:
        """Runs the suite and returns item → generated text. Raises RunFailedError."""
        names = [(variation.name, None)]
        if variation.one_by_one:
            names = [(f"{variation.name}-{target}", target) for target in self._targets()]
        found: dict[str, str] = {}
        for name, target in names:
            run = self.folder / "runs" / name
            if not (run / "finished").exists():
                self._run(variation, run, target)
            found |= {f"{item['case']}-{item['target']}": item["text"] for item in self._records(run)}
        return found

    def plain_texts(self, variations: list[Variation]) -> dict[str, str]:
        """Item → the stored text, where each variation gave just that; of all others the text of a plain run."""
        varied = [self.texts(variation) for variation in variations]
        runs = [run for variation in variations for run in (self.folder / "runs").glob(f"{variation.name}*")]
        stored = {f"{item['case']}-{item['target']}": stored_text(item) for run in runs for item in self._records(run)}
        equal = {item: text for item, text in stored.items() if text and all(each.get(item) == text for each in varied)}
        folder = self.folder / "stored"
        folder.mkdir(exist_ok=True)
        (folder / _EQUAL).write_text(json.dumps(sorted(equal)), encoding="utf-8")
        plain = dataclasses.replace(self, stored=folder).texts(PLAIN)
        left = json.loads((folder / _LEFT).read_text(encoding="utf-8"))
        print(f"plain: {len(plain)} items run, {len(left)} are as stored", file=sys.stderr, flush=True)
        return plain | {item: equal[item] for item in left}

    @staticmethod
    def _records(run: Path) -> list[dict]:
        return [json.loads(path.read_text(encoding="utf-8")) for path in (run / "items").rglob("*.json")]

    def _targets(self) -> list[str]:
        if self.quick:
            return list(_QUICK_TARGETS)
        about = json.loads((self.folder / "runs" / PLAIN.name / "run.json").read_text(encoding="utf-8"))
        return about["targets"]

    def _copy(self, name: str, source: Path) -> Path:
        copy = self.folder / name
        if not copy.exists():
            shutil.copytree(source, copy, ignore=_IGNORED)
        return copy

    def _run(self, variation: Variation, run: Path, target: str | None) -> None:
        root = self._copy("checkout", ROOT)
        if variation.other_folder:
            root = self._copy("another folder/with a longer name", root)
        targets = [target] if target else _QUICK_TARGETS if self.quick else []
        checks = "numerics,requirements" if self.full else "requirements"
        command = [sys.executable, "-m", "pytest", *self.cases, "-q", "--tb=line", "-p", "no:cacheprovider"]
        command += ["-p", "determinism", "--save-run", f"{run}{os.sep}", "--checks", checks, "--fresh"]
        command += ["--target", ",".join(targets)] if targets else []
        wanted: dict[str, str | None] = {"EXPECTTEST_ACCEPT": None, "PYTHONPATH": str(root / "ci")}
        wanted |= variation.variables | ({_QUICK: "1"} if self.quick else {})
        wanted |= {_STORED: str(self.stored)} if self.stored else {}
        environment = {name: value for name, value in (os.environ | wanted).items() if value is not None}
        core = min(os.sched_getaffinity(0))
        shutil.rmtree(run, ignore_errors=True)
        result = subprocess.run(
            [*command, *variation.options],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            preexec_fn=(lambda: os.sched_setaffinity(0, {core})) if variation.one_core else None,
        )
        nothing_left = self.stored is not None and result.returncode == 5
        if result.returncode not in (0, 1) and not nothing_left:  # failing items have texts too
            last_lines = "\n".join([*result.stdout.splitlines()[-15:], *result.stderr.splitlines()[-15:]])
            raise RunFailedError(f"{variation.name}: pytest ended with {result.returncode}\n{last_lines}")
        run.mkdir(parents=True, exist_ok=True)
        (run / "finished").touch()


def stored_text(item: dict) -> str | None:
    """The text that is stored for an item of a run; None without one, or where only a digest is stored."""
    from conformance.devices.targets import targets
    from conformance.storage.locations import store_at

    snapshot = store_at(Path(item["store"]), tuple(targets())).read(item["case"])
    return snapshot and snapshot.text(item["torch"], item["target"])


@dataclass
class Comparison:
    """`missing`: items of only one run. `differing`: item → unified diff of its two texts."""

    items: int
    missing: list[str]
    differing: dict[str, str]

    @property
    def equal(self) -> bool:
        return not (self.missing or self.differing)


def compare(plain: dict[str, str], other: dict[str, str], name: str) -> Comparison:
    differing = {}
    for item in sorted(plain.keys() & other.keys()):
        if plain[item].encode() != other[item].encode():
            lines = difflib.unified_diff(
                plain[item].splitlines(), other[item].splitlines(), f"plain/{item}", f"{name}/{item}", lineterm="", n=2
            )
            differing[item] = "\n".join(lines)
    return Comparison(len(other), sorted(plain.keys() ^ other.keys()), differing)


def table(rows: Iterable[tuple[str, Comparison, float]]) -> str:
    lines = ["| what varied | items | differing | seconds |", "|---|---:|---:|---:|"]
    for what, found, seconds in rows:
        lines.append(f"| {what} | {found.items} | {len(found.differing) + len(found.missing)} | {seconds:.0f} |")
    return "\n".join(lines)


def describe_differences(variation: Variation, found: Comparison, shown: int = 3, lines: int = 60) -> str:
    """Describes the first differences."""
    out = []
    if found.missing:
        few = ", ".join(found.missing[:shown])
        out.append(f"{variation.name}: {len(found.missing)} items are in only one of the runs: {few}")
    if found.differing:
        out.append(f"{variation.name}: {len(found.differing)} texts differ: {', '.join(list(found.differing)[:10])}")
        out += ["\n".join(diff.splitlines()[:lines]) for diff in list(found.differing.values())[:shown]]
    return "\n\n".join(out)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cases", metavar="FILE", nargs="*", default=CASES, help="files of cases (default: all operators)"
    )
    parser.add_argument("--only", metavar="LIST", help=f"run these variations: {', '.join(v.name for v in VARIATIONS)}")
    parser.add_argument("--quick", action="store_true", help="run a few cases of each operator on four targets")
    parser.add_argument("--full", action="store_true", help="also build and run cpu code")
    parser.add_argument("--stored", action="store_true", help="run what is as stored in no plain run")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the copy and the runs here")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else [variation.name for variation in VARIATIONS]
    if unknown := set(wanted) - {variation.name for variation in VARIATIONS}:
        parser.error(f"unknown variation {min(unknown)!r}; known are {', '.join(v.name for v in VARIATIONS)}")
    with tempfile.TemporaryDirectory(prefix="conformance-determinism-") as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        suite = Suite(folder, quick=options.quick, full=options.full, cases=tuple(options.cases))
        try:
            return _compare_all(suite, [v for v in VARIATIONS if v.name in wanted], stored=options.stored)
        except RunFailedError as error:
            print(error, file=sys.stderr)
            return 2


def _compare_all(suite: Suite, variations: list[Variation], *, stored: bool) -> int:
    plain = suite.plain_texts(variations) if stored else suite.texts(PLAIN)
    rows, differences = [], []
    for variation in variations:
        start = time.perf_counter()
        found = compare(plain, suite.texts(variation), variation.name)
        rows.append((variation.description, found, time.perf_counter() - start))
        print(f"{variation.name}: {found.items} items, {len(found.differing)} differing", file=sys.stderr, flush=True)
        if not found.equal:
            differences.append(describe_differences(variation, found))
    print(table(rows))
    if without := sorted(item for item, text in plain.items() if not text):
        print(f"\n{len(without)} items have no text, because their cases do not compile: {', '.join(without[:5])} …")
    for difference in differences:
        print(f"\n{difference}")
    return 1 if differences or not plain else 0


def pytest_collection_modifyitems(items: list) -> None:
    """Hook for the runs (`-p determinism`): keeps items of cases, few of them for --quick, and may reverse them.

    With _STORED, it leaves out those whose varied text is the stored one.
    """
    selected = [item for item in items if "conformance_item" in getattr(getattr(item, "callspec", None), "params", {})]
    if os.environ.get(_QUICK):
        selected = list(_few_of_each_file(selected))
    if stored := os.environ.get(_STORED):
        equal = set(json.loads((Path(stored) / _EQUAL).read_text(encoding="utf-8")))
        left = [item_name(item) for item in selected if item_name(item) in equal]
        (Path(stored) / _LEFT).write_text(json.dumps(left), encoding="utf-8")
        selected = [item for item in selected if item_name(item) not in equal]
    items[:] = reversed(selected) if os.environ.get(_REVERSED) else selected


def _few_of_each_file(items: list) -> Iterable:
    """The first and the last case of each file's first function."""
    by_file: dict[str, list] = {}
    for item in items:
        by_file.setdefault(item.path.name, []).append(item)
    for found in by_file.values():
        ids = list(dict.fromkeys(case_of(item) for item in found if item.originalname == found[0].originalname))
        chosen = {ids[0], ids[-1]}
        yield from (item for item in found if case_of(item) in chosen)


def case_of(item) -> str:
    return item.callspec.params["conformance_item"].case.id


def item_name(item) -> str:
    return f"{case_of(item)}-{item.callspec.params['conformance_item'].target.name}"


if __name__ == "__main__":
    sys.exit(main())
