"""The formats that docs/formats.md documents: what a run writes is as its schema says, and older files are read."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemas
from suites import SM90, WRONG_OUTPUT
from suites import PreloadedSuite as Suite

from conformance.cli.main import main
from conformance.facts import NAMES
from conformance.harness.ending.audit_report import audit_report
from conformance.numerics.problem import Problem
from conformance.storage import runs
from conformance.storage.runs import FORMAT, ItemRecord, Run, RunError, open_run
from conformance.storage.snapshots import SnapshotError, Store, parse

ROOT = Path(__file__).parents[2]
#: A run that was written before runs had a number. Its code differs from what `STORED` holds.
OLD = Path(__file__).parent / "samples" / "format-1"
F32 = "scale/double-f32"

#: Has all parts of a record: a missed optimisation, an opt-out, a known failure with its problems.
CASES = """
import torch
from conformance import case, tensor

@case(
    x=tensor(20, dtype=["f32", "f16"]),
    numerics={"without": {"nan": "the order decides"}},
    missed={"cuda": {"kernels": 0, "judgement": "one pass is enough"}},
)
def test_double(x):
    return x * 2

@case(x=tensor(20))
def test_wrong(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3
"""

KNOWN = """
[[failure]]
case = "scale/wrong"
check = "numerics"
target = "cuda_sm90"
torch = ">=2.11"
reason = "planted"
issue = "https://example.org/1"
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> tuple[Suite, Path]:
    """A project, and the folder of a run that wrote as many kinds of files as one run can."""
    suite = Suite(tmp_path_factory.mktemp("project"))
    suite.write("ops/test_scale.py", CASES)
    suite.write("ops/known_failures/scale.toml", KNOWN + WRONG_OUTPUT)
    suite.write("ops/expected_code/scale/gone-f32.txt", "== torch 2.13: cuda_sm90\nkernels       none\n")
    ran = suite.run(*SM90, "ops", "--quick", "--save-run", "mine", "--junit-xml=junit.xml")
    ran.has("2 items: 2 deviceless")
    return suite, suite.root / ".conformance/runs/mine"


def test_schemas_are_schemas():
    for name in ("run", "output", "archive"):
        jsonschema.Draft202012Validator.check_schema(schemas.schema(name))


def test_all_that_a_run_writes_is_documented(real):
    _, folder = real
    files = {path.relative_to(folder).as_posix() for path in folder.glob("*.json")}
    assert {"run.json", "selected.json", "without_quick.json"} <= files
    assert list(schemas.run_problems(folder)) == []
    record = Run(folder).item(F32, "cuda_sm90")
    assert record is not None
    assert record.missed
    assert record.fact_values["kernels"] == 1
    assert record.fact_values["bytes.least"] == 160
    wrong = Run(folder).item("scale/wrong", "cuda_sm90")
    assert wrong is not None
    assert [problem["rule"] for problem in wrong.problems]
    (profile,) = [each for each in wrong.error_profiles if each["call"] == "ordinary"]
    assert profile["buckets"]
    assert [each["buckets"] for each in record.error_profiles] == [[]], "twice a number has eager's bits"
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert [key for key in json.loads((folder / "run.json").read_text()) if f"`{key}`" not in page] == []
    assert [each.name for each in fields(ItemRecord) if f"`{each.name}`" not in page] == []


def test_a_report_for_programs_is_documented(real, tmp_path, capsys):
    _, folder = real
    assert main(["report", str(folder), "--json", str(tmp_path / "report.json")]) == 0
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert schemas.problems("output", "report", data) == []
    assert data["total"] == 2
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert [key for key in (*data, *data["items"][0]) if f"`{key}`" not in page] == []


def test_junit_says_its_format(real):
    suite, _ = real
    text = (suite.root / "junit.xml").read_text(encoding="utf-8")
    assert text.count('<property name="conformance.format" value="1"') == 1
    assert 'classname="ops.test_scale.code"' in text


def test_an_undocumented_key_is_found(real, tmp_path):
    _, folder = real
    copy = shutil.copytree(folder, tmp_path / "copy")
    for name in ("run.json", f"items/{F32}-cuda_sm90.json"):
        data = json.loads((copy / name).read_text())
        (copy / name).write_text(json.dumps(data | {"surprise": 1}))
    (copy / "other.json").write_text("{}")
    found = list(schemas.run_problems(copy))
    assert len(found) == 3
    assert all("surprise" in line or line == "other.json has no schema" for line in found)


def test_records_and_schema_have_the_same_keys():
    """So that a new field of a record fails here, in a second, with its name."""
    keys = set(schemas.schema("run")["$defs"]["item"]["properties"])
    assert keys == {"format", *(each.name for each in fields(ItemRecord))}


def test_problems_and_schemas_have_the_same_keys():
    item = schemas.schema("run")["$defs"]["item"]["properties"]["problems"]
    assert set(item["items"]["properties"]) == set(Problem("output", "values", "a text").to_json())
    assert f'"problems": {json.dumps(_undescribed(item))}' in json.dumps(_undescribed(schemas.schema("archive")))


def _undescribed(schema: Any) -> Any:
    """A schema without the descriptions, which one of several copies has."""
    if isinstance(schema, dict):
        return {key: _undescribed(value) for key, value in schema.items() if key != "description"}
    return list(map(_undescribed, schema)) if isinstance(schema, list) else schema


def test_facts_in_the_schema_are_facts():
    found = set(schemas.schema("run")["$defs"]["facts"]["properties"])
    assert {name for name in found if "." not in name} - {"code", "compile_work"} <= set(NAMES)


def test_audit_and_review_of_a_run_are_documented(tmp_path):
    entry = {"file": "test_a.py", "function": "test_a", "labels": "f32", "declaration": "without nan", "reason": "why"}
    entry |= {"how": "emulated", "verdict": "idle", "excuses": [], "why": ""}
    item = ItemRecord("a/a-f32", "cuda_sm90", "deviceless", "2.13.0", "/ops", audit=[entry])
    run = Run(tmp_path / "run")
    run.begin({"torch": "2.13.0", "triton": "3.7.1", "targets": ["cuda_sm90"], "machine": {}})
    run.write_item(item)
    run.write_audit(audit_report([item]).data)
    run.write_unused_snapshots({"/expected_code": ["a/b"]}, {"/expected_code": "python -m conformance prune"})
    (run.folder / "review.json").write_text('{"rejected": {"abc": "a cause"}}')
    assert list(schemas.run_problems(run.folder)) == []
    assert run.unused_snapshots() == [(["a/b"], "python -m conformance prune")]


@pytest.fixture
def old(tmp_path, monkeypatch) -> Suite:
    """A project with cases and stored code, and a run of format 1 below its runs."""
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", CASES.replace('["f32", "f16"]', '["f32", "u8"]'))
    shutil.copytree(OLD, tmp_path / "old")
    stored = {"scale/double-f32": {("2.13", "cuda_sm90"): "kernels       1: mul\n"}}
    Store(tmp_path / "ops/expected_code").merge(stored)
    monkeypatch.chdir(tmp_path)
    return suite


def test_run_of_format_1_is_read(old):
    run = open_run(old.root, "old/")
    assert run.description() | {"targets": []} == {
        "format": 1,
        "conformance": "",
        "time": "",
        "torch": "2.13.0+cpu",
        "triton": "3.7.1",
        "targets": [],
    }
    records = {record.name: record for record in run.items()}
    assert len(records) == 3
    assert records["scale/double-f32-cuda_sm90"].facts["kernels"] == "1: mul, add (pointwise 8192)"
    assert records["scale/double-f32-cuda_sm90"].fact_values == {}
    assert records["scale/double-f32-cuda_sm90"].error_profiles == []


def test_run_of_format_1_is_reviewed_compared_and_accepted(old, capsys):
    assert main(["review", "old", "ops", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data["items"]) == ["scale/double-f32-cuda_sm90"]
    assert schemas.problems("output", "review", data) == []
    assert main(["review", "old", "ops", "--list", "--baseline", "old"]) == 0
    assert "nothing differs: 3 texts unchanged" in capsys.readouterr().out
    assert main(["accept", "old", "ops"]) == 0
    assert "snapshots: 2 new, 1 changed, 0 unchanged" in capsys.readouterr().out
    assert "triton_poi_fused_add_mul_0" in old.stored()["scale/double-u8.txt"]


def test_run_of_a_newer_format_names_the_release_that_reads_it(old, capsys):
    file = old.root / "old/run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": FORMAT + 1, "conformance": "9.1.0"}))
    message = (
        f"error: old/ has format {FORMAT + 1}, and this release of conformance reads formats up to {FORMAT}: "
        "open it with conformance 9.1.0 or newer\n"
    )
    for words in (
        ["review", "old"],
        ["accept", "old", "ops"],
        ["list", "--missed", "old"],
        ["merge", "old", "-o", "new"],
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.replace("error: old has", "error: old/ has") == message
    assert not (old.root / "new").exists()
    audit = old.root / "old/audit.json"
    audit.write_text(json.dumps({"format": FORMAT + 1, "declarations": 7}))
    assert main(["report", "--audit", "old/audit.json"]) == 2
    assert "open it with the release that wrote it, or a newer one" in capsys.readouterr().err


def test_keys_that_a_newer_release_adds_are_ignored(old):
    file = old.root / "old/items/scale/double-f32-cuda_sm90.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"added_later": [1]}))
    assert open_run(old.root, "old/").item(F32, "cuda_sm90") is not None


@pytest.mark.parametrize("text", ["", "[]", '{"format": "x"}', '{"format": [1]}'])
def test_damaged_description_is_one_sentence(old, text):
    (old.root / "old/run.json").write_text(text)
    with pytest.raises(RunError, match=r"^old/?/run\.json cannot be read: "):
        open_run(old.root, "old/")


def test_what_commands_print_for_programs_is_documented(old, capsys):
    assert main(["list", "ops", "--target", "cuda_sm90", "--json"]) == 0
    assert schemas.problems("output", "list", json.loads(capsys.readouterr().out)) == []
    assert main(["list", "--missed", "old", "--json"]) == 0
    assert schemas.problems("output", "missed", json.loads(capsys.readouterr().out)) == []


SNAPSHOT = "== torch 2.13: cuda_sm90\nkernels       none\n"


def test_snapshot_of_format_1_may_say_so():
    assert parse(f"== format 1\n{SNAPSHOT}", "a.txt") == parse(SNAPSHOT, "a.txt")
    assert parse(f"== format 1\n\n{SNAPSHOT}", "a.txt") == parse(SNAPSHOT, "a.txt")


def test_snapshot_of_a_newer_format_is_refused_and_kept(tmp_path):
    store = Store(tmp_path)
    file = store.path(F32)
    file.parent.mkdir(parents=True)
    newer = f"== format 2\n{SNAPSHOT}"
    file.write_text(newer)
    message = "has snapshot format 2, and this release of conformance reads format 1: use the release that wrote it"
    with pytest.raises(SnapshotError, match=message):
        store.read(F32)
    with pytest.raises(SnapshotError, match=message):
        store.merge({F32: {("2.15", "cuda_sm90"): "kernels       2\n"}})
    with pytest.raises(SnapshotError, match=message):
        store.drop("2.13")
    assert file.read_text() == newer


def test_format_line_elsewhere_is_no_format_line():
    with pytest.raises(SnapshotError, match=r"a\.txt:3: unreadable header '== format 2'"):
        parse(f"{SNAPSHOT}== format 2\n", "a.txt")
    assert runs.FORMAT == 2
