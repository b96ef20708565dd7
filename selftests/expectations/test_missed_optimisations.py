"""Missed optimisations: a run lists them with Inductor's reason, says when one is gone, and fails for none."""

from __future__ import annotations

import json

import pytest
from suites import SM90
from suites import PreloadedSuite as Suite

from conformance.cli.main import main
from conformance.expectations import missed_optimisations
from conformance.storage.runs import ItemRecord

OPEN = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]), missed={"cuda f32": {"kernels": %s, "judgement": "one pass is enough"}})
def test_doubled(x):
    return x * 2
"""


def test_open_and_closed(tmp_path, monkeypatch, capsys):
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", OPEN % 0)
    ran = suite.run(*SM90, "--checks", "requirements").ends(0)
    ran.has("missed optimisations: 1; `python -m conformance list --missed` lists them with Inductor's reasons")

    monkeypatch.chdir(tmp_path)
    assert main(["list", "--missed", "--json"]) == 0
    (missed,) = json.loads(capsys.readouterr().out)["missed"]
    assert (missed["case"], missed["fact"], missed["wanted"], missed["got"]) == ("it/doubled-f32", "kernels", "0", "1")
    assert main(["list", "--missed"]) == 0
    page = capsys.readouterr().out
    assert "## kernels on cuda: 1 case, wanted 0" in page
    assert "  - wanted because one pass is enough" in page

    suite.write("ops/test_it.py", OPEN % 1)
    ran = suite.run(*SM90, "--checks", "requirements").ends(0)
    ran.has(
        "no longer missed: it/doubled-f32 on cuda_sm90: kernels is 1; move it from missed= to require= in test_it.py"
    )
    ran.has_not("missed optimisations:")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missed={'cuda u8': {'kernels': 1}}", "missed['cuda u8']: 'u8' is no target, no device and no label"),
        ("missed={'all': {'kernel': 1}}", "missed['all']: no fact 'kernel': known are kernels, "),
        ("missed={'all': {'same_code_as': 'that'}}", "missed['all']: no fact 'same_code_as'"),
        ("missed={'all': {'kernels': 1, 'judgement': 1}}", "'judgement' is 1; write a sentence"),
    ],
)
def test_wrong_declaration(tmp_path, how, message):
    suite = Suite(tmp_path)
    suite.write(
        "ops/test_it.py",
        f"from conformance import case, tensor\n\n@case(x=tensor(20), {how})\ndef test_it(x): return x\n",
    )
    ran = suite.run(*SM90).ends(4)
    ran.has(message)
    ran.has_not("Traceback")


def _item(case: str, target: str, reason: str) -> ItemRecord:
    missed = {"fact": "vectorised", "wanted": "yes", "got": "no", "reason": reason, "judgement": "it can"}
    return ItemRecord(case, target, "deviceless", "2.13.0", "", missed=[missed])


def test_reasons_are_grouped_without_their_numbers():
    items = [
        _item("flip/a", "cpu_avx2", "no: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2"),
        _item("flip/b", "cpu_avx2", "no: load index -x0 + 19 is not contiguous in x1 (stride -1), 1 of 2"),
        _item("flip/b", "cpu_avx512", "no: load index -x0 + 19 is not contiguous in x1 (stride -1), 1 of 2"),
        _item("flip/c", "cpu_avx2", "no: dtype int16 has no vectors"),
    ]
    (section,) = missed_optimisations.sections(items)
    assert section.title == "vectorised on cpu: 3 cases, wanted yes"
    assert [(len(reason.cases), reason.targets) for reason in section.reasons] == [
        (2, ["cpu_avx2", "cpu_avx512"]),
        (1, ["cpu_avx2"]),
    ]
    assert [reason.judgements for reason in section.reasons] == [["it can"], ["it can"]]


def test_a_run_without_facts(tmp_path, monkeypatch, capsys):
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", OPEN % 1)
    suite.accept(*SM90, "--checks", "code").ends(0)
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--missed"]) == 2
    assert "no item of the run last has facts: each was left out, or ran without" in capsys.readouterr().err
