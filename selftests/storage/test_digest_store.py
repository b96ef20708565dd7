"""The store of digests: tables that are read back, sorted, replaced at once, and refused where they are wrong."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline

from conformance import atomic_files
from conformance.review.review import review_items, stored_text_finder
from conformance.storage import digests
from conformance.storage.accept import accept_snapshots
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.digest_store import DigestStore
from conformance.storage.locations import snapshot_folder, snapshot_store, store_at
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Counts, Snapshot, SnapshotError
from conformance.storage.unused import all_collected

FACTS = {
    "kernels": 2,
    "kernels.forward": 1,
    "kernels.backward": 1,
    "kinds": ["pointwise", "pointwise"],
    "kinds.pointwise": 2,
    "extern": [],
    "fallbacks": ["aten.topk"],
    "fallbacks.aten.topk": 1,
    "unfused": 0,
    "bytes": 1.04,
    "buffers": 1,
    "graph_breaks": 0,
}
TABLE = "torch2.13/cuda_sm90/opinfo-f32.txt"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "expected_digests"


def record(root, case="opinfo/abs-f32-forward-sample0", text="code\n", target="cuda_sm90", **more):
    return ItemRecord(
        case=case,
        target=target,
        mode="deviceless",
        torch="2.13.0+cpu",
        store=str(root),
        text=text,
        fact_values=more.pop("facts", FACTS),
        **more,
    )


def accept(*items, mode="all", overlay=""):
    return accept_snapshots(items, mode, ["cpu_avx2", "cuda_sm90"], overlay)


def test_a_line_a_case(root):
    on_cpu = FACTS | {"vectorised": "none", "kernels": 0, "kinds": [], "fallbacks": [], "bytes": None}
    del on_cpu["kernels.forward"], on_cpu["kernels.backward"]
    items = [
        record(root, "opinfo/b-f32-forward-sample0", facts=FACTS | {"fallbacks": []}),
        record(root, "opinfo/a-f32-forward-sample0", "other\n", facts={"code": "none"}),
        record(root, "opinfo/a-i64-forward-sample0", facts=FACTS | {"fallbacks": []}),
        record(root, "opinfo/a-f32-forward-sample0", target="cpu_avx2", facts=on_cpu),
    ]
    assert accept(*items).counts == Counts(new=4)
    assert_expected_inline(
        "\n".join(f"{file.relative_to(root)}\n{file.read_text()}" for file in sorted(root.rglob("*.txt"))),
        """\
torch2.13/cpu_avx2/opinfo-f32.txt
== digests 1: torch 2.13, cpu_avx2
a-f32-forward-sample0  0xb57b236c9bcd2a61  vectorised none; buffers 1

torch2.13/cuda_sm90/opinfo-f32.txt
== digests 1: torch 2.13, cuda_sm90
a-f32-forward-sample0  0x7e4fa2eb8c7ac089  code none
b-f32-forward-sample0  0xb57b236c9bcd2a61  kernels 2 (1 forward, 1 backward); kinds 2 pointwise; bytes 1.04; buffers 1

torch2.13/cuda_sm90/opinfo-i64.txt
== digests 1: torch 2.13, cuda_sm90
a-i64-forward-sample0  0xb57b236c9bcd2a61  kernels 2 (1 forward, 1 backward); kinds 2 pointwise; bytes 1.04; buffers 1
""",
    )
    store = DigestStore(root)
    assert store.cases() == [item.case for item in sorted(items[:3], key=lambda each: each.case)]
    assert store.versions() == ["2.13"]
    assert store.has_target("cpu_avx2")
    assert not store.has_target("xpu_pvc")
    for item in items:
        assert store.read(item.case).text(item.torch, item.target) == digests.digest_text(item)


def test_accepting_again_changes_only_what_differs(root):
    first, second = record(root), record(root, "opinfo/add-f32-forward-sample0")
    accept(first, second)
    before = (root / TABLE).read_text().splitlines()
    changed = record(root, text="new code\n", facts=FACTS | {"kernels": 3, "kernels.forward": 2})
    assert accept(changed, second).counts == Counts(changed=1, unchanged=1)
    after = (root / TABLE).read_text().splitlines()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]
    assert accept(first, mode="new").counts == Counts()
    assert (root / TABLE).read_text().splitlines() == after


def test_wrong_numerics_are_never_accepted(root):
    wrong = record(root, checks={"numerics": CheckResult(Outcome.FAILED, "off by 3")})
    accepted = accept(wrong, record(root, "opinfo/add-f32-forward-sample0"))
    assert (accepted.counts, list(accepted.refused)) == (Counts(new=1), [wrong.name])
    assert DigestStore(root).read(wrong.case) is None


def test_code_of_real_hardware_is_marked(root):
    native = record(root, checks={"deviceless": CheckResult(Outcome.PASSED, "")})
    native.mode = "native"
    accept(native)
    assert "0xb57b236c9bcd2a61*  kernels" in (root / TABLE).read_text()
    assert DigestStore(root).read(native.case).is_confirmed("2.13", "cuda_sm90")
    accept(record(root, text="other\n"))
    assert "*" not in (root / TABLE).read_text()


def test_a_changed_case_names_facts_and_one_cause_for_all_digests(root):
    cases = [f"opinfo/{name}-f32-forward-sample0" for name in ("abs", "add", "all")]
    accept(*(record(root, case, f"{case}\n") for case in cases))
    new = [record(root, case, f"{case} new\n") for case in cases[:2]]
    new.append(record(root, cases[2], "new\n", facts=FACTS | {"fallbacks": []}))
    found = review_items(new, stored_text_finder())
    assert len(found.changed_items) == 3
    assert len(found.causes) == 2
    assert sorted(len(cause.members) for cause in found.causes) in ([1, 2], [1, 3])
    assert any("aten.topk" in cause.title for cause in found.causes)
    assert review_items([record(root, cases[0], f"{cases[0]}\n")], stored_text_finder()).equal == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("== digests 1", "== digests 2", "has format 2 of digests, and this release of conformance reads format 1"),
        ("== digests 1: torch 2.13", "== digests 1: torch 2.15", "the first line must be '== digests 1: torch 2.13"),
        ("abs-f32", "<<<<<<< HEAD\nabs-f32", ":2: unreadable line '<<<<<<< HEAD'; take one side of a merge conflict"),
        ("kernels 2", "kernel 2", ":2: unreadable line"),
        ("0x", "1x", ":2: unreadable line"),
    ],
)
def test_a_wrong_table_is_refused_and_stays(root, old, new, message):
    item = record(root)
    accept(item)
    wrong = (root / TABLE).read_text().replace(old, new)
    (root / TABLE).write_text(wrong)
    with pytest.raises(SnapshotError, match=message):
        DigestStore(root).read(item.case)
    assert message in accept(item).problems[0]
    assert (root / TABLE).read_text() == wrong


def test_a_table_that_cannot_be_written_stays(root, monkeypatch):
    item = record(root)
    accept(item)
    before = (root / TABLE).read_text()

    def full(path, content):
        if "cuda_sm90" in str(path):
            raise OSError("no space left on device")
        original(path, content)

    original = atomic_files.write_atomically
    monkeypatch.setattr(atomic_files, "write_atomically", full)
    accepted = accept(record(root, text="new\n"), record(root, target="cpu_avx2"))
    assert accepted.counts == Counts(new=1)
    assert "not stored, the old file is unchanged: no space left" in accepted.problems[0]
    assert (root / TABLE).read_text() == before


def test_removing_cases_and_versions(root):
    items = [record(root), record(root, "opinfo/add-f32-forward-sample0")]
    accept(*items)
    store = DigestStore(root)
    store.remove([items[0].case])
    assert store.cases() == [items[1].case]
    assert store.drop("2.11") == 0
    assert store.drop("2.13") == 1
    assert not list(root.rglob("*.txt"))


def test_an_overlay_holds_what_differs(root, tmp_path):
    same, other = record(root), record(root, "opinfo/add-f32-forward-sample0")
    accept(same, other)
    before = (root / TABLE).read_text()
    changed = record(root, other.case, "vendor's\n")
    overlay = str(tmp_path / "vendor")
    assert accept(same, changed, overlay=overlay).counts == Counts(changed=1, unchanged=1)
    assert (root / TABLE).read_text() == before
    assert len((tmp_path / "vendor" / "expected_digests" / TABLE).read_text().splitlines()) == 2
    laid_over = store_at(root, ("cuda_sm90",), overlay)
    assert laid_over.has_table(same.case, "2.13.0+cpu", "cuda_sm90")
    assert not laid_over.has_table("opinfo/abs-f16-forward-sample0", "2.13.0+cpu", "cuda_sm90")
    assert laid_over.read(other.case).text("2.13", "cuda_sm90") == digests.digest_text(changed)
    assert laid_over.read(same.case).text("2.13", "cuda_sm90") == digests.digest_text(same)


def test_the_folder_chooses_the_form(tmp_path):
    package = tmp_path / "package"
    for name in ("ops", "sweep"):
        (package / name).mkdir(parents=True)
        for folder in (package, package / name):
            (folder / "__init__.py").touch()
        (package / name / f"test_{name}.py").touch()
    (package / "sweep" / "expected_digests").mkdir()
    assert isinstance(snapshot_store(package / "sweep" / "test_sweep.py"), DigestStore)
    assert not isinstance(snapshot_store(package / "ops" / "test_ops.py"), DigestStore)
    assert snapshot_folder(package / "ops" / "test_ops.py") == package / "expected_code"
    # A run of ops alone has collected all that stores beside it: the sweep has folders of its own.
    assert all_collected(package, [package / "ops"])
    assert not all_collected(package, [package / "sweep"])


def test_a_whole_text_is_no_digest(root):
    assert not digests.is_digest("kernels  1\n\n--- inference\ndef call(args):\n")
    assert digests.in_form_of("whole\n", record(root)) == "code\n"
    assert Snapshot().text("2.13", "cuda_sm90") is None
