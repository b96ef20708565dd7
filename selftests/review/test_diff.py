"""The text of a snapshot, and the message about two texts that differ."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline

from conformance.capture.model import Capture, Module
from conformance.facts import extract
from conformance.normalize.text import facts_block, normalised_graph, parse_facts, snapshot_text
from conformance.review.diff import MAX_DIFF_LINES, compare_texts

FACTS = {"kernels": "1: flip\n  flip (pointwise)\n  of 3 loops", "vectorised": "no: index", "extern": "none"}


def capture(**changes):
    modules = [Module("forward", "# AOT ID: ['3_forward']\nx = 1\n"), Module("backward", "y = 2\n")]
    fields = {"case": "flip/hflip", "target": "cpu_avx2", "mode": "deviceless", "torch": "2.13.0", "triton": ""}
    return Capture(**fields | {"modules": modules} | changes)


GRAPH = """\
class inner_f(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 8][8, 1]cuda:0"):
        # File: /home/me/a.py:9 in f, code: y = x.sin()

        sin: "f32[4, 8][8, 1]cuda:0" = torch.ops.aten.sin.default(primals_1);  primals_1 = None
        full = torch.ops.aten.full.default([8], 1, device = device(type='cuda', index=0));  full = None
        return (sin,)
"""


def test_snapshot_text():
    assert_expected_inline(
        snapshot_text(capture(joint_graph=GRAPH), FACTS, "cuda"),
        """\
kernels     1: flip
              flip (pointwise)
              of 3 loops
vectorised  no: index
extern      none

--- joint graph
class inner_f(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 8][8, 1]device"):
        sin: "f32[4, 8][8, 1]device" = torch.ops.aten.sin.default(primals_1)
        full = torch.ops.aten.full.default([8], 1, device = device)
        return (sin,)

--- forward
x = 1

--- backward
y = 2
""",
    )


def test_error_of_a_capture():
    failed = capture(modules=[], error="RuntimeError: no")
    text = snapshot_text(failed, extract(failed).lines(), "cpu")
    assert " ".join(text.split()) == "code none: compiling raises RuntimeError: no"


@pytest.mark.parametrize(
    "facts",
    [FACTS, {}, {"a_name_longer_than_the_column": "1\n2", "b": "3"}, {"empty": ""}, {"a": "x  y\n    deep\n  less"}],
)
def test_facts_are_read_back(facts):
    assert parse_facts(facts_block(facts) + "\n--- inference\nkernels     2\n") == facts


@pytest.mark.parametrize("name", ["", "two words", "---"])
def test_names_of_facts(name):
    with pytest.raises(ValueError, match="a name is one word"):
        facts_block({name: "1"})


def test_another_device_stays_in_the_graph():
    assert '"f32[2]cpu"' in normalised_graph('x: "f32[2]cpu"', "cuda")


# Differences --------------------------------------------------------------------------------------------------------


def test_no_difference():
    text = snapshot_text(capture(), FACTS, "cpu")
    assert compare_texts(text, text + "\n\n") is None


def test_facts_come_first():
    old = snapshot_text(capture(), FACTS, "cpu")
    new = snapshot_text(capture(modules=[Module("forward", "x = 2\n")]), FACTS | {"vectorised": "yes"}, "cpu")
    assert compare_texts(old, new, "EXPECTTEST_ACCEPT=1 pytest -k hflip").message.splitlines() == [
        "facts changed:",
        "vectorised  no: index → yes",
        "",
        "--- stored",
        "+++ generated",
        "@@ -1,5 +1,2 @@ --- forward",
        " --- forward",
        "-x = 1",
        "-",
        "---- backward",
        "-y = 2",
        "+x = 2",
        "",
        "accept it with: EXPECTTEST_ACCEPT=1 pytest -k hflip",
        "how code is stored: `python -m conformance docs snapshots`",
    ]


def test_facts_alone():
    old, new = snapshot_text(capture(), FACTS, "cpu"), snapshot_text(capture(), {"kernels": "2"}, "cpu")
    difference = compare_texts(old, new)
    assert difference.diff == ()
    assert difference.message.startswith("facts changed:\n")


def test_facts_unchanged():
    old = snapshot_text(capture(), FACTS, "cpu")
    assert compare_texts(old, old.replace("x = 1", "x = 2")).message.startswith("facts unchanged\n\n--- stored\n")


def test_a_long_diff_is_cut():
    old, new = ("a  1\n\n--- inference\n" + "\n".join(f"{n}{k}" for n in range(500)) for k in "ab")
    lines = compare_texts(old, new, "accept me").message.splitlines()
    assert len(lines) == MAX_DIFF_LINES + 6
    assert lines[-4].startswith("… ")
    assert lines[-2] == "accept it with: accept me"


def test_a_hunk_names_its_kernel():
    body = "\n".join(f"line {n}" for n in range(20))
    old = f"a  1\n\n--- inference\n# kernel one_0\n{body}\n\ndef call(args):\n{body}\n"
    assert "@@ kernel one_0" in compare_texts(old, old.replace("line 9\n", "changed\n", 1)).message
