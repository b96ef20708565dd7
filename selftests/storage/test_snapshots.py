"""The store: shares and splits texts, reads them back, survives being killed, and refuses wrong input."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from conformance.storage import snapshot_format
from conformance.storage.snapshots import Counts, Snapshot, SnapshotError, Store, parse, torch_release

TARGETS = ["cpu_avx2", "cpu_avx512", "cuda_sm80", "cuda_sm90", "xpu_pvc"]
CASE = "flip/hflip-224-u8"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "expected", TARGETS)


def content(store, case=CASE):
    return store.path(case).read_text(encoding="utf-8")


def same(text, *targets, torch="2.13"):
    return {(torch, target): text for target in targets}


def test_nothing_stored(store):
    assert store.read(CASE) is None
    assert store.cases() == []


def test_targets_and_versions_share_a_text(store):
    counts = store.merge(
        {
            CASE: same("a\n", "xpu_pvc", "cuda_sm90")
            | same("a", "cuda_sm90", torch="2.15.0+cu132")
            | same("b\n\nc", "cpu_avx512", "cpu_avx2")
        }
    )
    assert counts == Counts(new=5)
    assert_expected_inline(
        content(store),
        """\
== torch 2.13: cpu_avx2 cpu_avx512
b

c

== torch 2.13: cuda_sm90 xpu_pvc
== torch 2.15: cuda_sm90
a
""",
    )
    snapshot = store.read(CASE)
    assert snapshot.text("2.15", "cuda_sm90") == "a\n"
    assert snapshot.text("2.15", "cpu_avx2") is None
    assert snapshot.versions() == ["2.13", "2.15"]
    assert snapshot.targets("2.13.1+cpu") == ["cpu_avx2", "cpu_avx512", "cuda_sm90", "xpu_pvc"]


def test_splits_and_collapses(store):
    store.merge({CASE: same("one", *TARGETS)})
    assert content(store).count("== ") == 1
    assert store.merge({CASE: same("two", "cuda_sm90")}) == Counts(changed=1)
    assert_expected_inline(
        content(store),
        """\
== torch 2.13: cpu_avx2 cpu_avx512 cuda_sm80 xpu_pvc
one

== torch 2.13: cuda_sm90
two
""",
    )
    assert store.merge({CASE: same("one", "cuda_sm90")}) == Counts(changed=1)
    assert_expected_inline(
        content(store),
        """\
== torch 2.13: cpu_avx2 cpu_avx512 cuda_sm80 cuda_sm90 xpu_pvc
one
""",
    )


def test_content_does_not_depend_on_the_order_of_merges(tmp_path):
    updates = [
        (torch, target, f"{target[:3]}{torch}") for torch in ("2.9", "2.13") for target in [*TARGETS, "amd_gfx942"]
    ]
    contents = set()
    for seed in range(5):
        random.Random(seed).shuffle(updates)
        store = Store(tmp_path / str(seed), TARGETS)
        for torch, target, text in updates:
            store.merge({CASE: {(torch, target): text}})
        contents.add(content(store))
    (text,) = contents
    assert text.index("torch 2.9: cpu_avx2") < text.index("torch 2.13: cpu_avx2") < text.index("amd_gfx942")


def test_a_second_merge_changes_nothing(store):
    updates = {CASE: same("one", *TARGETS), "sum/sum": same("two", "cpu_avx2")}
    store.merge(updates)
    before = {case: (content(store, case), store.path(case).stat().st_mtime_ns) for case in updates}
    assert store.merge(updates) == Counts(unchanged=6)
    assert before == {case: (content(store, case), store.path(case).stat().st_mtime_ns) for case in updates}


def test_counts(store):
    store.merge({CASE: same("one", "cpu_avx2", "cuda_sm80")})
    again = {CASE: same("one", "cpu_avx2") | same("two", "cuda_sm80", "cuda_sm90")}
    assert store.merge(again) == Counts(new=1, changed=1, unchanged=1)
    assert store.merge({}) == Counts()


def test_confirmed_is_kept_until_the_text_changes(store):
    keys = [("2.13", "cuda_sm90")]
    store.merge({CASE: same("one", "cuda_sm80", "cuda_sm90")}, confirmed={CASE: keys})
    assert content(store).startswith("== torch 2.13: cuda_sm80 cuda_sm90 (confirmed: cuda_sm90)\none\n")
    store.merge({CASE: same("one", "cuda_sm80", "cuda_sm90")})
    assert store.read(CASE).is_confirmed("2.13.0", "cuda_sm90")
    store.merge({CASE: same("two", "cuda_sm80", "cuda_sm90")})
    assert not store.read(CASE).is_confirmed("2.13", "cuda_sm90")
    assert store.merge({CASE: same("two", "cuda_sm90")}, confirmed={CASE: keys}) == Counts(unchanged=1)
    assert store.read(CASE).is_confirmed("2.13", "cuda_sm90")


HOSTILE = [
    "== torch 2.13: cpu_avx2\n\\== torch\n\\\\== x\n\\other",
    "<<<<<<< HEAD\n=======\n>>>>>>> theirs\n||||||| base",
    "",
    "\n\n  indented, blanks behind   \n\n\n",
    "→ é 漢字 \u2028 next",
    "== not a header",
    "a\r\nb\rc",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_round_trip(store, text):
    first = {CASE: same("before", "cpu_avx2") | same(text, "cuda_sm80") | same("after", "xpu_pvc")}
    assert store.merge(first) == Counts(new=3)
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    snapshot = store.read(CASE)
    assert snapshot.text("2.13", "cuda_sm80") == "\n".join(lines).strip("\n") + "\n"
    assert snapshot.text("2.13", "xpu_pvc") == "after\n"
    assert store.merge(first) == Counts(unchanged=3)


def test_versions_are_major_and_minor():
    assert torch_release("2.13.0a0+git12") == torch_release("2.13") == "2.13"
    with pytest.raises(SnapshotError, match="'main' is not a torch version"):
        torch_release("main")


def test_a_version_is_dropped(store):
    store.merge({CASE: same("a", "cpu_avx2") | same("a", "cpu_avx2", torch="2.11")})
    store.merge({"sum/old": same("b", "cpu_avx2", "xpu_pvc", torch="2.11")})
    assert store.cases() == [CASE, "sum/old"]
    assert store.drop("2.11") == 3
    assert store.cases() == [CASE]
    assert store.read(CASE).versions() == ["2.13"]


# Refusals -----------------------------------------------------------------------------------------------------------


def broken(store, text):
    store.path(CASE).parent.mkdir(parents=True, exist_ok=True)
    store.path(CASE).write_text(text, encoding="utf-8")


def test_conflict_markers(store):
    text = "== torch 2.13: cpu_avx2\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n"
    broken(store, text)
    with pytest.raises(SnapshotError) as caught:
        store.read(CASE)
    assert_expected_inline(
        str(caught.value).replace(str(store.root), "expected").replace(f"{store.root.parent}/", ""),
        """\
expected/flip/hflip-224-u8.txt:2: unresolved merge conflict. Take one side, then accept the code that is generated now:
  git checkout --ours -- expected/flip/hflip-224-u8.txt && EXPECTTEST_ACCEPT=1 pytest test_flip.py -k 'test_hflip[224-u8-'""",  # noqa: E501
    )
    (store.root.parent / "ops").mkdir()
    (store.root.parent / "ops/test_flip.py").touch()
    with pytest.raises(SnapshotError, match=r"pytest \S+/ops/test_flip\.py -k"):
        store.read(CASE)


def test_a_broken_file_keeps_no_other_from_being_stored(store):
    broken(store, "<<<<<<< HEAD\n")
    with pytest.raises(SnapshotError, match="unresolved merge conflict") as caught:
        store.merge({CASE: same("a", "cpu_avx2"), "sum/sum": same("b", "cpu_avx2")})
    assert caught.value.counts == Counts(new=1)
    assert content(store) == "<<<<<<< HEAD\n"
    assert store.read("sum/sum").text("2.13", "cpu_avx2") == "b\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("== torch 2.13 cpu_avx2\na\n", ":1: unreadable header '== torch 2.13 cpu_avx2'; write it like"),
        ("a\n", ":1: text before the first header"),
        ("== torch 2.13: cpu_avx2\na\n\n== torch 2.13: cpu_avx2\nb\n", ":4: torch 2.13 has two texts for cpu_avx2"),
        ("== torch 2.13: cpu_avx2 cpu_avx2\na\n", ":1: torch 2.13 has two texts for cpu_avx2"),
        ("== torch 2.13: cpu_avx2\n== torch 2.13: cpu_avx2\na\n", ":2: torch 2.13 has two texts for cpu_avx2"),
        ("== torch 2.13: a (confirmed: b)\na\n", ":1: b is confirmed but is not a target of this line"),
    ],
)
def test_unreadable(store, text, message):
    broken(store, text)
    with pytest.raises(SnapshotError) as caught:
        store.read(CASE)
    assert f"{CASE}.txt{message}" in str(caught.value)


def test_a_key_given_twice(store):
    with pytest.raises(SnapshotError, match=r"two texts for torch 2\.13 and cpu_avx2 in one merge"):
        store.merge({CASE: {("2.13", "cpu_avx2"): "a", ("2.13.1", "cpu_avx2"): "b"}})


@pytest.mark.parametrize("case", ["../flip", "/flip", "flip/../../x", "flip/", "", "flip/.hidden", "flip/a b"])
def test_ids_stay_inside(store, case):
    with pytest.raises(SnapshotError, match="is not a case id"):
        store.merge({case: same("a", "cpu_avx2")})


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "expected").write_text("a file", encoding="utf-8")
    with pytest.raises(SnapshotError, match="cannot be written to, nothing was stored"):
        Store(tmp_path / "expected").merge({CASE: same("a", "cpu_avx2")})


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_loses_nothing(store, monkeypatch, call):
    store.merge({CASE: same("old", "cpu_avx2"), "sum/sum": same("old", "cpu_avx2")})

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        if call == "replace":  # pathlib calls another function, depending on the version of Python
            patch.setattr("pathlib.Path.replace", full)
        with pytest.raises(SnapshotError, match="No space left on device") as caught:
            store.merge({CASE: same("new", "cpu_avx2"), "sum/sum": same("new", "cpu_avx2")})
    assert caught.value.counts == Counts()
    assert content(store) == "== torch 2.13: cpu_avx2\nold\n"
    assert sorted(path.name for path in store.path(CASE).parent.iterdir()) == [store.path(CASE).name]


def test_what_is_read_back_is_checked(store, monkeypatch):
    monkeypatch.setattr(
        "conformance.atomic_files.write_atomically", lambda _, text: broken(store, text.replace("new", "torn"))
    )
    with pytest.raises(SnapshotError, match="the content read back differs from the content written"):
        store.merge({CASE: same("new", "cpu_avx2")})


# Processes ----------------------------------------------------------------------------------------------------------

WORKER = """
import sys
from pathlib import Path
from conformance.storage.snapshots import Store
root, worker, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number in range(rounds):
    text = f"worker {worker} round {number}\\n" * 2000
    Store(root).merge({f"op/case{case}": {("2.13", f"target{worker}"): text} for case in range(4)})
    print(number, flush=True)
"""


def worker(root, number, rounds, **options):
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", WORKER, str(root), str(number), str(rounds)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, **options)


def test_eight_processes_at_once(tmp_path):
    workers = [worker(tmp_path, number, 2, stdout=subprocess.DEVNULL) for number in range(8)]
    assert [process.wait(timeout=120) for process in workers] == [0] * 8
    store = Store(tmp_path)
    assert len(store.cases()) == 4
    for case in store.cases():
        texts = store.read(case).texts
        assert texts == {("2.13", f"target{n}"): f"worker {n} round 1\n" * 2000 for n in range(8)}


def test_killed_at_any_moment(tmp_path):
    chance = random.Random(4)
    store = Store(tmp_path)
    for _ in range(8):
        process = worker(tmp_path, 0, 1000, stdout=subprocess.PIPE)
        process.stdout.readline()  # the first merge has ended: the process is writing now
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for case in store.cases():
            (text,) = store.read(case).texts.values()
            lines = text.splitlines()
            assert len(lines) == 2000
            assert len(set(lines)) == 1
    (tmp_path / "op" / ".case0.txt.99.tmp").write_text("half a fi", encoding="utf-8")
    assert store.merge({f"op/case{n}": same("done", "target0") for n in range(4)}).changed == 4
    assert sorted(path.name for path in (tmp_path / "op").iterdir()) == [f"case{n}.txt" for n in range(4)]


def test_the_example_of_the_format_is_what_the_store_reads_and_writes(store):
    indented = re.findall(r"^(?:(?:    .*)?\n)+", snapshot_format.__doc__, re.MULTILINE)
    file, text = (textwrap.dedent(lines).strip("\n") + "\n" for lines in indented if lines.strip())
    snapshot = parse(file, "example")
    assert snapshot.text("2.13", "cpu_avx2") == text
    assert snapshot.confirmed == {("2.11", "cuda_sm90")}
    assert store.format(snapshot) == file


def test_a_snapshot_is_data():
    assert parse("== torch 2.13: a b\nx\n", "f") == Snapshot({("2.13", "a"): "x\n", ("2.13", "b"): "x\n"})
