"""`--conformance-report`: the report of a run, written at its end."""

from __future__ import annotations

import json
import re

from suites import PreloadedSuite as Suite

NEUTRAL = ("--target", "cuda_sm90", "--checks", "requirements")


def test_a_run_writes_its_report(suite: Suite) -> None:
    suite.run(*NEUTRAL, "--conformance-report", "report.html").ends(0).has(f"report: {suite.root / 'report.html'}")
    assert (suite.root / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_that_cannot_be_written_fails_the_run(suite: Suite) -> None:
    suite.write("file", "")
    suite.run(*NEUTRAL, "--conformance-report", "file/report.html").ends(1).has("the report was not written: ")


def test_a_run_keeps_what_explains_the_kernels_of_passed_items(suite: Suite) -> None:
    suite.run(*NEUTRAL, "--explain", "--save-run", "one", "--conformance-report", "report.html").ends(0)
    kept = list((suite.root / ".conformance/runs/one/explanations").rglob("*.json"))
    assert kept
    for file in kept:
        explanation = json.loads(file.read_text(encoding="utf-8"))
        assert explanation["links"][2]
        (notes,) = explanation["panes"][3]["notes"].values()
        assert re.match(r"kernel 1: .*: at least [\d.]+ µs by estimate on ", notes[0])
    html = (suite.root / "report.html").read_text(encoding="utf-8")
    assert html.count('id="data-explained-') == len(kept)
