"""`python -m conformance review`: reviews the changes of a run without running again. Only the last test uses torch."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import re
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import schemas
from kernel_text import TEXT, edited
from suites import SM90, run_python

from conformance.bisection import cause_blamer
from conformance.bisection import sides as bisection_sides
from conformance.bisection.blamer import Blamed, Blamer
from conformance.bisection.cause_blamer import blame_causes
from conformance.bisection.differences import Difference
from conformance.bisection.observation import Observation
from conformance.bisection.sides import Side
from conformance.cli import review_blame
from conformance.cli.main import main
from conformance.devices.environment import TorchBuild
from conformance.storage.runs import Run, link_last_run
from conformance.storage.snapshots import Store

EXP = ("tl_math.abs", "tl_math.exp")
HINT = ("{'x': 32}", "{'x': 64}")
TORCH = "2.13.0+cpu"
FAILED = {"outcome": "failed", "detail": "differs"}
OPS = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]))
def test_abs(x):
    return x.abs()
"""


class Project:
    """A folder with stored texts and a run. c1 and c2 differ by edit EXP, c4 by edit HINT, and c3 by both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(root / "ops" / "expected_code")
        self.run = Run(root / ".conformance" / "runs" / "20261120T000000-1")
        self.run.begin({"torch": TORCH})
        self.items: dict[str, str] = {}
        for case, text in {
            "op/c1": edited(EXP),
            "op/c2": edited(EXP),
            "op/c3": edited(EXP, HINT),
            "op/c4": edited(HINT),
            "op/same": TEXT,
        }.items():
            self.add(case, text)
        link_last_run(root, self.run)

    def add(self, case: str, new: str, stored: str | None = TEXT, target: str = "cuda_sm90", **more) -> None:
        if stored is not None:
            self.store.merge({case: {("2.13", target): stored}})
        self.items[case] = new
        checks = more.pop("checks", {"code": FAILED})
        data = {"case": case, "target": target, "mode": "deviceless", "torch": TORCH, "store": str(self.store.root)}
        path = self.run.folder / "items" / f"{case}-{target}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data | {"text": new, "checks": checks} | more))

    def accepted(self) -> set[str]:
        """Returns the cases whose stored text is now the text of the run."""
        return {
            case
            for case, new in self.items.items()
            if new != TEXT and (s := self.store.read(case)) and s.text("2.13", "cuda_sm90") == new
        }


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def review(capsys, monkeypatch):
    def call(*arguments: str, keys: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
        status = main(["review", *arguments])
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


def test_the_list_says_what_changed(project, review):
    status, out, _ = review("--list")
    assert status == 0
    assert [re.sub(r"  [0-9a-f]{6}  ", " ", line) for line in out.splitlines()] == [
        "4 texts of 4 cases differ by 2 causes; no fact changed:",
        "  1 `abs` → `exp`  (3 texts: 3 kernels, 3 cases, on cuda_sm90)",
        "  2 `32` → `64` in `# size_hints.x = N`  (2 texts: 2 kernels, 2 cases, on cuda_sm90)",
    ]
    assert review("--list", "--by", "case")[1].splitlines()[3] == "  op/c3: cuda_sm90 (causes 1, 2)"


def test_json_holds_causes_and_items(project, review):
    status, out, _ = review("--json")
    data = json.loads(out)
    assert status == 0
    assert [each["title"] for each in data["causes"]] == ["`abs` → `exp`", "`32` → `64` in `# size_hints.x = N`"]
    assert data["causes"][0]["items"] == ["op/c1-cuda_sm90", "op/c2-cuda_sm90", "op/c3-cuda_sm90"]
    assert data["items"]["op/c3-cuda_sm90"]["causes"] == [1, 2]
    assert data["equal"] == 1
    assert "+    tmp3 = tl_math.exp(tmp2)" in data["items"]["op/c1-cuda_sm90"]["diff"]


def test_a_cause_is_accepted_and_what_differs_by_more_waits(project, review):
    status, out, _ = review("--accept", "1")
    assert (status, project.accepted()) == (0, {"op/c1", "op/c2"})
    assert "snapshots: 0 new, 2 changed, 0 unchanged" in out
    assert "not accepted yet: op/c3-cuda_sm90 also has cause 2" in out
    assert review("--accept", "1,2")[0] == 0
    assert project.accepted() == {"op/c1", "op/c2", "op/c3", "op/c4"}
    assert review("--list")[1] == "nothing differs: 5 texts unchanged\n"


def test_a_cause_is_accepted_by_its_id(project, review):
    ids = [each["id"] for each in json.loads(review("--json")[1])["causes"]]
    review("--accept", ids[1])
    assert project.accepted() == {"op/c4"}


@pytest.mark.parametrize("what", ["op/c3", "op/c3-cuda_sm90"])
def test_a_case_and_an_item_are_accepted_whatever_they_differ_by(project, review, what):
    assert review("--accept", what)[0] == 0
    assert project.accepted() == {"op/c3"}


def test_all_is_everything_that_is_new_too(project, review):
    project.add("op/c5", edited(EXP), stored=None)
    assert "1 text of 1 case is not stored yet (store with --accept new)" in review("--list")[1]
    review("--accept", "new")
    assert project.accepted() == {"op/c5"}
    review("--accept", "all")
    assert len(project.accepted()) == 5


def test_walking_asks_for_each_cause_and_stores_at_the_end(project, review):
    status, out, _ = review(keys="sa")
    assert (status, project.accepted()) == (0, {"op/c4"})
    assert out.count("[a]ccept, [r]eject, [s]kip, [d]iff, [q]uit?") == 2
    assert "cause 1 of 2: `abs` → `exp`" in out
    assert "its texts also have cause 2" in out
    assert "-    tmp3 = tl_math.abs(tmp2)" in out
    assert "not accepted yet: op/c3-cuda_sm90 also has cause 1" in out


@pytest.mark.parametrize(("keys", "accepted"), [("", 0), ("q", 0), ("a", 2), ("aq", 2), ("a\na\n", 4), ("x?a", 2)])
def test_the_end_of_the_input_is_quit_and_other_keys_are_asked_again(project, review, keys, accepted):
    assert review(keys=keys)[0] == 0
    assert len(project.accepted()) == accepted


def test_rejecting_stores_nothing_and_is_remembered(project, review):
    status, out, _ = review(keys="ra")
    assert (status, project.accepted()) == (1, {"op/c4"})
    assert "rejected: 1 of 2 causes; their items were not stored" in out
    assert "rejected: `abs` → `exp`" in review("--list")[1]
    assert review(keys="s")[0] == 1
    assert review(keys="aa")[0] == 0
    assert len(project.accepted()) == 4


def test_diff_shows_one_item_after_another(project, review):
    out = review(keys="dddd")[1]
    assert [out.count(f"\n{name}-cuda_sm90\n    facts unchanged") for name in ("op/c1", "op/c2", "op/c3")] == [1, 1, 1]
    assert "no more items" in out


def test_by_case(project, review):
    status, out, _ = review("--by", "case", keys="asr")
    assert (status, project.accepted()) == (1, {"op/c1"})
    assert "case 3 of 4: op/c3\n  on cuda_sm90:\n    facts unchanged" in out


def test_the_largest_cause_comes_first_and_targets_that_changed_alike_are_shown_once(project, review):
    for target in ("cuda_sm90", "cuda_sm100"):
        project.add("op/c0", edited(("extern      none", "extern      mm")), target=target)
    out = review(keys="sss")[1]
    assert "cause 2 of 3: extern  now: mm\n  1 case, on cuda_sm90 and cuda_sm100\n" in out
    out = review("--by", "case", keys="")[1]
    assert "  on cuda_sm100, cuda_sm90:\n    facts changed:\n    extern  none → mm" in out


def test_nothing_is_stored_of_an_item_whose_numerics_fail(project, review):
    project.add("op/c1", edited(EXP), checks={"numerics": FAILED, "code": FAILED})
    assert "numerics fail for 1 of them: those will not be stored" in review(keys="")[1]
    status, out, _ = review("--accept", "all")
    assert (status, project.accepted()) == (1, {"op/c2", "op/c3", "op/c4"})
    assert "not accepted: op/c1-cuda_sm90: its numerics fail" in out


def test_consequences_of_a_fact_are_asked_with_it(project, review):
    project.add("op/c0", edited(("kernels     1: add (pointwise 20)", "kernels     2"), ("tmp0 - tmp1", "tmp0 + tmp1")))
    status, out, _ = review(keys="ssa")
    assert (status, project.accepted()) == (0, {"op/c0"})
    assert "cause 3 of 3: kernels  split" in out
    assert "with it, in 1 text: `-` → `+` in `tmp0 + tmp1`" in out


def test_a_run_is_compared_with_what_is_stored_now(project, review):
    project.store.merge({"op/c1": {("2.13", "cuda_sm90"): edited(EXP)}})
    assert review("--list")[1].startswith("3 texts of 3 cases differ")


def test_a_run_of_another_torch_is_compared_with_the_nearest(project, review):
    project.add("op/c1", edited(EXP), torch="2.15.0")
    out = review("--list")[1]
    assert out.startswith("4 texts of 4 cases differ from torch 2.13 ")
    review("--accept", "op/c1")
    assert project.store.read("op/c1").versions() == ["2.13", "2.15"]


def test_another_run_as_the_baseline(project, review, tmp_path):
    other = Project(tmp_path / "other")
    other.add("op/c3", edited(EXP))
    status, out, _ = review("--baseline", str(other.run.folder), "--list")
    assert (status, out.splitlines()[0].partition(" from ")[0]) == (0, "1 text of 1 case differs")
    assert "`32` → `64` in `# size_hints.x = N`" in out
    review("--baseline", str(other.run.folder), keys="a")
    assert project.accepted() == set()


def test_a_run_from_elsewhere_finds_this_checkouts_stores(project, review, tmp_path):
    """A run downloaded from CI: its stores are paths of another machine."""
    (project.root / "ops" / "test_op.py").write_text(OPS)
    artefact = Project(tmp_path / "artefact")
    for file in (artefact.run.folder / "items").rglob("*.json"):
        file.unlink()
    artefact.items.clear()
    artefact.add("op/abs-f32", edited(EXP), stored=None, store="/home/runner/ops/expected_code")
    artefact.add("op/gone", edited(EXP), stored=None, store="/home/runner/ops/expected_code")
    project.store.merge({"op/abs-f32": {("2.13", "cuda_sm90"): TEXT}})
    status, out, err = review(str(artefact.run.folder), "ops", "--accept", "1")
    assert "op/gone-cuda_sm90: there is no such case in ops\n" in err
    assert "snapshots: 0 new, 1 changed, 0 unchanged" in out
    assert status == 1
    assert project.store.read("op/abs-f32").text("2.13", "cuda_sm90") == edited(EXP)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no run 'nowhere'; existing runs: 20261120T000000-1, last"),
        (["--accept", "7"], "there is no cause 7: this run has 2 causes"),
        (["--accept", "op/c9"], "'op/c9' is no cause, case or item that differs; "),
        (["--baseline", "nowhere"], "there is no run 'nowhere'"),
        (["--baseline", "last", "--accept", "1"], "--accept stores a run's code, and --baseline compares with a run: "),
    ],
)
def test_bad_input_is_one_sentence(project, review, arguments, message):
    status, out, err = review(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert project.accepted() == set()


def test_a_broken_run_is_said(project, review):
    (project.run.folder / "items" / "op" / "c1-cuda_sm90.json").write_text("{}")
    assert review()[0] == 2
    (project.run.folder / "items" / "op" / "c1-cuda_sm90.json").write_text("{")
    assert "not written by this version of the suite" in review("--list")[2]


def test_a_snapshot_that_cannot_be_read_is_said_and_the_others_are_reviewed(project, review):
    project.store.path("op/c1").write_text("<<<<<<< ours\n")
    status, out, err = review("--list")
    assert status == 1
    assert "unresolved merge conflict" in err
    assert out.startswith("3 texts of 3 cases differ")


def test_a_run_says_its_causes_and_failures_name_theirs(accepted):
    """pytest, its summary, review, and pytest again."""
    folder = accepted.root / "ops" / "expected_code" / "scale"
    for path in folder.glob("*.txt"):
        path.write_text(path.read_text().replace("xindex", "x_index"))
    ran = accepted.run(*SM90).ends(1)
    ran.has(
        "2 texts of 2 cases differ by 1 cause; no fact changed:",
        "  1  `x_index` → `xindex`  (2 texts: 2 kernels, 2 cases, on cuda_sm90)",
        "2 items = 2 failed; next: python -m conformance review",
        "cause 1 of 1: `x_index` → `xindex`",
    )
    done = run_python("-m", "conformance", "review", "--accept", "1", folder=accepted.root)
    assert done.returncode == 0, done.stderr
    assert "snapshots: 0 new, 2 changed, 0 unchanged" in done.stdout
    accepted.run(*SM90).ends(0).has_not("differ by")


class MadeBlamer(Blamer):
    """Finds a function for each edit of `abs`, and none for others. `items`: case → its new text."""

    items: ClassVar[dict[str, str]] = {}
    is_cut_off: ClassVar[bool] = False

    def observe_sides(self):
        pass

    def observations(self, case):
        return Observation(code=TEXT), Observation(code=self.items[case])

    def blame_change(self, _case, change, _old):
        if "exp" in change.added[0]:
            function = Difference("_inductor/ops.py", "exp", "function", 1, frozenset())
            return Blamed(change, (function,), is_cut_off=self.is_cut_off)
        return Blamed(change, stopped="no function fits")


@pytest.fixture
def blamed_sides(project, monkeypatch):
    """Torches that are not here, and a made-up search for functions."""
    MadeBlamer.items = project.items
    monkeypatch.setattr(cause_blamer, "blame_causes", functools.partial(blame_causes, make=MadeBlamer))
    monkeypatch.setattr(review_blame, "torch_build", lambda: TorchBuild("2.13.0", (), Path("here")))
    monkeypatch.setattr(
        bisection_sides, "parse_side", lambda word, _: Side(word, Path(word), TorchBuild("2.13.0", (), Path(word)))
    )


def test_blame_names_the_functions_of_each_cause_and_keeps_them(project, review, blamed_sides):
    status, out, _ = review("--blame=old")
    found = "comes from torch/_inductor/ops.py: exp"
    missing = "comes from: not found with op/c4-cuda_sm90: no function fits"
    assert status == 1
    assert [line.strip() for line in out.splitlines()] == [
        "2 causes to blame, from old to installed",
        "1  `abs` → `exp`",
        found,
        "2  `32` → `64` in `# size_hints.x = N`",
        missing,
    ]
    assert [line.strip() for line in review("--list")[1].splitlines()][2::2] == [found, missing]
    assert found in review(keys="q")[1]
    data = json.loads(review("--json")[1])
    assert [each["functions"] for each in data["causes"]] == [["torch/_inductor/ops.py: exp"], []]
    assert schemas.problems("output", "review", data) == []
    kept = json.loads((project.run.folder / "blamed.json").read_text())
    assert schemas.problems("run", "blamed.json", kept) == []
    assert review("--blame=old")[1].startswith("1 cause to blame")
    assert review("--blame=old", "--causes", "1")[0] == 0


def test_an_answer_that_was_cut_off_says_so(project, review, blamed_sides, monkeypatch):
    monkeypatch.setattr(MadeBlamer, "is_cut_off", True)
    note = "perhaps fewer of them make it: the captures were used up"
    lines = [line.strip() for line in review("--blame=old", "--causes", "1")[1].splitlines()]
    assert lines[-2:] == ["comes from torch/_inductor/ops.py: exp", note]
    assert note in review("--list")[1]
    assert schemas.problems("run", "blamed.json", json.loads((project.run.folder / "blamed.json").read_text())) == []


def test_what_was_found_against_another_run_is_not_shown(project, review, blamed_sides):
    review("--blame=old")
    other = Run(project.root / "other")
    other.begin({"torch": TORCH, "torch_source": {"path": "src", "commit": "1a2b3c"}})
    for item in project.run.items():
        other.write_item(dataclasses.replace(item, text=TEXT))
    assert "comes from" not in review("--list", "--baseline", "other")[1]
    assert review("--blame", "--baseline", "other")[1].startswith("2 causes to blame, from src@1a2b3c to installed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--causes", "1"], "--causes says which causes --blame looks at"),
        (["--blame"], "--blame needs the torch that generated the stored code: --blame=VENV"),
        (["--blame=installed"], "--blame: both sides are installed: name another torch"),
        (["--blame=old", "--accept", "1"], "--blame neither accepts nor writes JSON"),
        (["--blame=old", "--causes", "7"], "there is no cause 7"),
        (["--blame=old", "--causes", "op/c1"], "--causes op/c1: no such cause"),
    ],
)
def test_wrong_words_for_blame(project, review, blamed_sides, words, message):
    status, _, err = review(*words)
    assert status == 2
    assert message in err
    assert not (project.run.folder / "blamed.json").exists()


def test_a_run_of_another_torch_is_not_blamed_with_this_one(project, review, blamed_sides, monkeypatch):
    monkeypatch.setattr(review_blame, "torch_build", lambda: TorchBuild("2.15.0", (), Path("here")))
    assert "the run is of torch 2.13.0+cpu, and torch 2.15.0 is installed here" in review("--blame=old")[2]
