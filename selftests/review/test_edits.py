"""Edits: what one edit of a text is called, and what is no edit."""

from __future__ import annotations

import re

import pytest
from kernel_text import KERNEL, TEXT, edited
from raw import ALL, sample
from simulated_changes import helper, names

from conformance.normalize.text import canonical_text
from conformance.normalize.wrapper_modules import normalise
from conformance.review.causes import ChangedText, find_causes
from conformance.review.edits.edit import code_edits


def titles(new: str, old: str = TEXT) -> list[str]:
    """The title of each edit, once."""
    return list({each.key: each.title for each in code_edits(canonical_text(old), canonical_text(new))}.values())


def test_the_same_text_has_no_edit():
    assert titles(TEXT) == []


@pytest.mark.parametrize("name", ALL)
def test_renaming_alone_is_no_difference(name):
    """Renumbers names with gaps and in another order, as after an edit elsewhere in the compiler."""
    raw = sample(name)
    device = re.search(r"-(cpu|cuda|xpu)", name)[1]
    renamed = re.sub(r"(?<![a-zA-Z.])(tmp|buf)(\d+)(?!\d)", lambda m: f"{m[1]}{(int(m[2]) * 5 + 3) % 101}", raw)
    if device != "cpu":
        renamed = re.sub(r"(?<![\w.])(x)(\d)(?!\w)", lambda m: f"{m[1]}{int(m[2]) * 2 + 1}", renamed)
    assert renamed != raw
    old, new = normalise(raw, device), normalise(renamed, device)
    assert code_edits(canonical_text(old), canonical_text(new)) == ()
    assert find_causes([ChangedText("a", "b", old, new)]) == []


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("(in_ptr1 + (x0), xmask)", "(in_ptr1 + (x0), None)")], ["`xmask` → `None` in `tl.load(…)`"]),
        ([("tmp0 - tmp1", "tmp1 - tmp0")], ["operand changed in `tmp = tmp - tmp`"]),
        ([("tmp0 - tmp1", "tmp0 + tmp1")], ["`-` → `+` in `tmp0 + tmp1`"]),
        ([("xindex < xnumel", "xindex <= xnumel")], ["`<` → `<=` in `xindex <= xnumel`"]),
        ([("{'x': 32}", "{'x': 64}")], ["`32` → `64` in `size_hints`"]),
        ([("tl_math.abs", "tl_math.exp")], ["`abs` → `exp`"]),
        ([("torch.float32", "torch.float16")], ["`float32` → `float16`"]),
        ([("    x0 = xindex\n", "")], ["removed: `x0 = xindex`"]),
        ([("tmp0 - tmp1", "(tmp0 - tmp1).to(tl.float32)")], ["`tmp0 - tmp1` → `(tmp0 - tmp1).to(tl.float32)`"]),
        (
            [
                ("    assert_size_stride(arg0, (20, ), (1, ), 'input')\n", ""),
                ("        triton_poi", "        assert_size_stride(arg0, (20, ), (1, ), 'input')\n        triton_poi"),
            ],
            ["moved: `assert_size_stride(…)`"],
        ),
    ],
)
def test_one_edit_in_words(pairs, expected):
    assert titles(edited(*pairs)) == expected


@pytest.mark.parametrize(
    ("line", "pair", "expected"),
    [
        (
            'tl.device_assert(tmp0 < 33, "index out of bounds: 0 <= tmp0 < 33")',
            ("<= tmp0", "<= tmp1"),
            'operand changed in `tl.device_assert(tmp < N, "index out of bounds: N <= tmp < N")`',
        ),
        (
            'TORCH_CHECK(tmp0 < 33L, "index out of bounds: 0 <= tmp0 < 33L")',
            ('< 33L"', '< 34L"'),
            "`33L` → `34L` in `TORCH_CHECK(…)`",
        ),
        (
            "auto tmp4 = tmp3 ? tmp0() : tmp1();",
            ("tmp0()", "tmp1()"),
            "operand changed in `auto tmp = tmp ? tmp() : tmp();`",
        ),
    ],
)
def test_a_name_in_a_message_and_that_of_a_lambda_are_names(line, pair, expected):
    text = edited(("    tl.store", f"    {line}\n    tl.store"))
    assert titles(names(text), text) == ["`tmp` → `val`"]
    assert titles(edited(pair, text=text), text) == [expected]


def test_a_templated_name_is_one_edit_and_a_type_and_a_name_are_two():
    text = edited(("    tl.store", "    Welford<float> tmp_acc0 = Vectorized<float>::loadu(x0);\n    tl.store"))
    assert titles(helper(text), text) == ["`Vectorized<float>::loadu` → `load_vector<float>`"]
    assert titles(text, helper(text)) == ["`load_vector<float>` → `Vectorized<float>::loadu`"]
    both = edited(("Welford", "Mean"), ("tmp_acc0", "val_acc0"), text=text)
    assert [edit.title for edit in code_edits(text, both)] == ["`Welford` → `Mean`", "`tmp_acc` → `val_acc`"]


def test_what_follows_from_an_edit_is_not_another():
    """A line is removed: the names after it have other numbers."""
    new = edited(
        ("    tmp3 = tl_math.abs(tmp2)\n", ""),
        ("tmp3, xmask", "tmp2, xmask"),
        ("tmp2 = tmp0 - tmp1", "tmp2 = tmp0 - tmp1"),
    )
    assert titles(new) == ["removed: `tmp3 = tl_math.abs(tmp2)`"]


def test_a_changed_fact_is_no_edit_of_code():
    assert titles(edited(("extern      none", "extern      mm"))) == []


def test_a_second_kernel_is_one_edit_and_its_call_is_none():
    second = KERNEL.replace("_add_0", "_mul_0")
    call = "        triton_poi_fused_mul_0.run(arg0, arg1, buf0, 20)\n    return"
    assert titles(edited((KERNEL, f"{KERNEL}\n{second}"), ("    return", call))) == [
        "added: a Triton kernel (pointwise)"
    ]


def test_a_kernel_that_became_another_is_said_once():
    body = KERNEL.index("    xnumel = 20")
    other = "".join(f"    tmp{n} = libdevice.f{n}(in_ptr0, {n}, tl.float64) * {n}.5\n" for n in range(30))
    assert titles(TEXT.replace(KERNEL[body:], other)) == ["rewritten: a Triton kernel (pointwise)"]


def test_two_edits_of_one_text_are_two():
    new = edited(("tl_math.abs", "tl_math.exp"), ("{'x': 32}", "{'x': 64}"))
    assert titles(new) == ["`32` → `64` in `size_hints`", "`abs` → `exp`"]


def test_the_same_edit_has_the_same_key_in_another_text():
    change = ("tl_math.abs", "tl_math.exp")
    other = TEXT.replace("20", "35").replace("add", "mul")
    keys = [[each.key for each in code_edits(text, edited(change, text=text))] for text in (TEXT, other)]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 1
