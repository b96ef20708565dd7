"""A store laid over another one: what is read, what is written, and that the store below never changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.cases.loader import cases_in
from conformance.storage import binaries, unused
from conformance.storage.accept import accept_snapshots
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.installed import InstalledError, installed_package, refuse_installed
from conformance.storage.locations import overlay_root, snapshot_store, store_at
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Counts, Snapshot, Store

CASE = "flip/hflip-f32"
ORDER = ("cpu_avx2", "cuda_sm90", "xpu_pvc", "xpu_pvc_1100")
AVX2, SM90, PVC, PVC_1100 = (("2.13", target) for target in ORDER)


def text(name):
    return f"kernels     1: {name}\n\n--- inference\ndef call(args):\n    return 1\n"


@pytest.fixture
def below(tmp_path):
    store = Store(tmp_path / "ops/expected_code", ORDER)
    store.merge({CASE: {AVX2: text("a"), SM90: text("b"), PVC: text("c")}}, {CASE: [SM90]})
    return store


@pytest.fixture
def over(tmp_path, below):
    return store_at(below.root, ORDER, str(tmp_path / "vendor"))


def files(folder):
    return {path: path.read_text() for path in folder.rglob("*.txt")}


def test_each_text_comes_from_the_overlay_or_else_from_below(below, over):
    over.merge({CASE: {SM90: text("mine"), ("2.13", "cuda_mine"): text("new")}, "flip/other": {AVX2: text("other")}})
    snapshot = over.read(CASE)
    assert snapshot.texts == {AVX2: text("a"), SM90: text("mine"), PVC: text("c"), ("2.13", "cuda_mine"): text("new")}
    assert [snapshot.is_of_overlay(*key) for key in (AVX2, SM90, PVC)] == [False, True, False]
    assert not snapshot.is_confirmed(*SM90), "real hardware gave the text below, and not this one"
    assert over.cases() == [CASE, "flip/other"]
    assert [over.has_target(name) for name in ("cpu_avx2", "cuda_mine", "cuda_none")] == [True, True, False]
    assert over.versions() == ["2.13"]
    assert over.read("flip/other").texts == {AVX2: text("other")}


def test_the_overlay_holds_only_what_differs_or_is_missing(below, over):
    before = files(below.root)
    counts = over.merge({CASE: {AVX2: text("a"), SM90: text("mine"), ("2.15", "cuda_sm90"): text("b")}})
    assert counts == Counts(new=1, changed=1, unchanged=1)
    assert over.read_own(CASE) == Snapshot({SM90: text("mine"), ("2.15", "cuda_sm90"): text("b")})
    assert over.merge({CASE: {SM90: text("b"), ("2.15", "cuda_sm90"): text("b")}}) == Counts(changed=1, unchanged=1)
    assert over.read_own(CASE) == Snapshot({("2.15", "cuda_sm90"): text("b")}), "SM90 agrees with the store below again"
    assert over.read(CASE).is_confirmed(*SM90)
    assert files(below.root) == before


def test_an_overlay_that_agrees_everywhere_has_no_file(below, over):
    over.merge({CASE: {SM90: text("mine")}})
    over.merge({CASE: {SM90: text("b")}})
    assert files(over.root) == {}


def test_a_variant_is_stored_where_it_differs_from_what_would_be_read(below, over):
    """xpu_pvc_1100 is a variant of xpu_pvc: without a text of its own, it has that one's, of either layer."""
    over.merge({CASE: {PVC_1100: text("c")}})
    assert over.read_own(CASE) is None
    over.merge({CASE: {PVC: text("mine"), PVC_1100: text("mine")}})
    assert over.read_own(CASE) == Snapshot({PVC: text("mine")})
    assert over.read(CASE).text(*PVC_1100) == text("mine")
    assert over.read(CASE).is_of_overlay(*PVC_1100)
    over.merge({CASE: {PVC_1100: text("c")}})
    assert over.read(CASE).text(*PVC_1100) == text("c"), "the overlay has another text for its base"


def test_dropping_and_removing_change_the_overlay_alone(below, over):
    over.merge({CASE: {SM90: text("mine"), ("2.15", "cuda_sm90"): text("b")}})
    before = files(below.root)
    assert over.drop("2.13") == 1
    assert over.read(CASE).text(*SM90) == text("b")
    assert over.versions() == ["2.13", "2.15"]
    over.remove([CASE])
    assert files(over.root) == {}
    assert files(below.root) == before


def record(below, target, new, **change):
    return ItemRecord(CASE, target, "deviceless", "2.13.0+cpu", str(below.root), text=new, **change)


@pytest.mark.parametrize("mode", ["all", "new"])
def test_accepting_writes_into_the_overlay(tmp_path, below, over, mode):
    before = files(below.root)
    items = [record(below, "cpu_avx2", text("a")), record(below, "cuda_sm90", text("mine"))]
    wrong = {"numerics": CheckResult(Outcome.FAILED, "wrong")}
    items += [record(below, "cuda_mine", text("new")), record(below, "xpu_pvc", text("wrong"), checks=wrong)]
    result = accept_snapshots(items, mode, (*ORDER, "cuda_mine"), str(tmp_path / "vendor"))
    assert result.counts.new == 1
    assert list(result.refused) == [f"{CASE}-xpu_pvc"]
    stored = {("2.13", "cuda_mine"): text("new")} | ({SM90: text("mine")} if mode == "all" else {})
    assert over.read_own(CASE).texts == stored
    assert files(below.root) == before


def test_confirmed_texts_of_the_overlay_are_marked(tmp_path, below, over):
    passed = {"deviceless": CheckResult(Outcome.PASSED)}
    mine = record(below, "cuda_mine", text("new"), checks=passed)
    mine.mode = "native"
    accept_snapshots([mine], "new", (*ORDER, "cuda_mine"), str(tmp_path / "vendor"))
    assert over.read(CASE).is_confirmed("2.13", "cuda_mine")


def test_binaries(tmp_path, below, monkeypatch):
    monkeypatch.setattr(binaries, "triton_version", lambda: "3.7.1")
    place, over = below.root.with_name("expected_binary"), tmp_path / "vendor/expected_binary"
    (place).mkdir()
    place.joinpath("flip.txt").write_text(
        "torch 2.13, Triton 3.7.1\n\n== hflip-f32: cuda_sm80 cuda_sm90\nk: registers 8\n"
    )
    before = files(place)
    items = [record(below, target, "x", binaries=["k: registers 8"]) for target in ("cuda_sm80", "cuda_mine")]
    items.append(record(below, "cuda_sm90", "x", binaries=["k: registers 9"]))
    root = str(overlay_root(str(tmp_path / "vendor")))
    targets = ("cuda_sm80", "cuda_sm90", "cuda_mine")
    assert binaries.accept_binaries(items, "all", targets, root) == [
        "binaries: flip.txt: 2 new or changed, 1 unchanged"
    ]
    assert set(binaries.read(over / "flip.txt").lines) == {("hflip-f32", "cuda_sm90"), ("hflip-f32", "cuda_mine")}
    layers = [over / "flip.txt", place / "flip.txt"]
    found = [binaries.stored_lines(layers, CASE, target, "2.13.1") for target in (*targets, "cuda_other")]
    assert found == [("k: registers 8",), ("k: registers 9",), ("k: registers 8",), None]
    assert binaries.stored_lines(layers, CASE, "cuda_sm90", "2.15.0") == (), "another torch has other binaries"
    assert files(place) == before


CASES = """
from conformance import case, tensor

@case(x=tensor(20))
def test_double(x):
    return x * 2
"""


def test_unused_snapshots_of_an_overlay(tmp_path):
    """A case of another folder may be in the same overlay: only operators that were collected are judged."""
    (tmp_path / "ops").mkdir()
    file = tmp_path / "ops/test_scale.py"
    file.write_text(CASES)
    vendor = str(tmp_path / "vendor")
    store = snapshot_store(file, ORDER, vendor)
    store.merge({name: {AVX2: text("a")} for name in ("scale/double", "scale/gone", "elsewhere/case")})
    cases = list(cases_in(file).values())
    found = unused.unused_snapshots(cases, [tmp_path / "ops"], vendor)
    assert [(each.root, case) for each, case in found] == [(overlay_root(vendor), "scale/gone")]
    advice = unused.prune_advice(found[0][0].root, ["ops"], vendor)
    assert advice == f"remove with: python -m conformance prune ops --store {vendor}"
    assert unused.unused_snapshots(cases, [], vendor) == [], "not everything was collected"


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder that a wheel was installed into, beside a folder that belongs to no wheel."""
    for folder in ("site/package/ops", "site/other", "site/package-1.0.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "site/package-1.0.dist-info/RECORD").write_text("package/ops/test_flip.py,,\npackage-1.0.dist-info/R,,")
    return tmp_path / "site"


def test_an_installed_package_is_recognised(site):
    assert installed_package(site / "package/ops") == "package"
    assert installed_package(site / "package") == "package"
    assert installed_package(site / "other/ops") == ""
    assert installed_package(site) == ""
    refuse_installed(site / "other")


@pytest.mark.parametrize("action", ["merge", "drop", "remove", "binaries"])
def test_nothing_is_written_into_an_installed_package(site, action):
    store = Store(site / "package/expected_code")
    actions = {
        "merge": lambda: store.merge({CASE: {AVX2: text("a")}}),
        "drop": lambda: store.drop("2.13"),
        "remove": lambda: store.remove([CASE]),
        "binaries": lambda: binaries.remove_cases(site / "package/expected_binary/flip.txt", [CASE], ()),
    }
    with pytest.raises(InstalledError, match=r"belongs to the installed package package.*give --store DIR"):
        actions[action]()
    assert sorted(path.name for path in (site / "package").iterdir()) == ["ops"]
