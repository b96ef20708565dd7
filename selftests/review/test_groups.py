"""Grouping: simulated changes of the compiler in all stored texts, single edits, and that no edit is hidden."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.normalize.rules import normalise
from conformance.review.edits.edit import code_edits
from conformance.review.groups import ChangedText, Group, group_changes
from conformance.storage.snapshots import Store, canonical_text

REPOSITORY = Path(__file__).parents[2]
SAMPLES = Path(__file__).parents[1] / "samples"
TORCH = "2.13"


def _stored() -> list[tuple[str, str, str]]:
    """(case, target, text) of all texts stored for TORCH."""
    store = Store(REPOSITORY / "conformance" / "expected_code")
    snapshots = ((case, store.read(case)) for case in store.cases())
    return [(case, key[1], text) for case, s in snapshots if s for key, text in s.texts.items() if key[0] == TORCH]


#: A load that ends with a name. If the name changes and a keyword is added after it, both changes are one edit.
TOUCHING = re.compile(r"tl\.load\([^()\n]*\btmp\d+\)")
STORED = [each for each in _stored() if not TOUCHING.search(each[2])]


def text_of(case: str, target: str) -> str:
    return next(text for other, name, text in STORED if (other, name) == (case, target))


# Simulated changes of the compiler ------------------------------------------------------------------------------------


def keyword(text: str) -> str:
    """Adds a keyword to every load of Triton."""
    out, end = [], 0
    for match in re.finditer(r"\btl\.load\(", text):
        depth, place = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            place += 1
        out += [text[end : place - 1], ", cache_modifier='.cg'"]
        end = place - 1
    return "".join([*out, text[end:]])


def names(text: str) -> str:
    """Renames variables in Triton and in C++."""
    return re.sub(r"tmp(?=\d|_acc\d)", "val", text)


def helper(text: str) -> str:
    """Renames the function that loads a vector in C++."""
    return re.sub(r"Vectorized<([^()<>]*)>::loadu\(", r"load_vector<\1>(", text)


def helper_of_many(text: str) -> str:
    """Renames the function that loads several vectors in C++. It is of another class, so this is another edit."""
    return re.sub(r"VectorizedN<([^()<>]*)>::loadu\(", r"load_vectors<\1>(", text)


#: Changes that are made together, and the expected title of each group.
SIMULATED: dict[str, dict[str, Callable[[str], str]]] = {
    "keyword": {"added to `tl.load(…)`: `cache_modifier='.cg'`": keyword},
    "names": {"`tmp` → `val`": names},
    "helper": {
        "`Vectorized<T>::loadu` → `load_vector<T>`": helper,
        "`VectorizedN<T,N>::loadu` → `load_vectors<T,N>`": helper_of_many,
    },
}
CHOSEN = [chosen for count in (1, 2, 3) for chosen in itertools.combinations(SIMULATED, count)]


@pytest.mark.parametrize("chosen", CHOSEN, ids="+".join)
def test_compiler_wide_changes_are_exactly_their_groups(chosen):
    expected = {title: change for name in chosen for title, change in SIMULATED[name].items()}
    changed = []
    for case, target, text in STORED:
        new = text
        for change in expected.values():
            new = change(new)
        changed.append(ChangedText(case, target, text, new))
    groups = group_changes(changed)
    assert {each.title for each in groups} == set(expected)
    assert len(groups) == len(expected)
    for title, change in expected.items():
        (matching,) = [each for each in groups if each.title == title]
        items = {(case, target) for case, target, text in STORED if change(text) != text}
        assert {(member.case, member.target) for member in matching.members} == items
        assert len(items) > 100
        assert matching.kernels == sum(_kernels(text, change) for *_, text in STORED)
        assert matching.facts == []
    assert [each.kernels for each in groups] == sorted((each.kernels for each in groups), reverse=True)


def _kernels(text: str, change: Callable[[str], str]) -> int:
    """Returns the number of kernels of a text that the change changes."""
    blocks = re.split(r"^(?=# kernel |def call|--- )", text, flags=re.MULTILINE)
    return sum(change(block) != block for block in blocks)


def test_the_same_texts_are_no_groups():
    assert group_changes(ChangedText(case, target, text, text) for case, target, text in STORED) == []


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.txt")))
def test_renaming_alone_is_no_difference(name):
    """Renumbers names with gaps and in another order, as after an edit elsewhere in the compiler."""
    raw = (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")
    device = re.search(r"-(cpu|cuda|xpu)", name)[1]
    renamed = re.sub(r"(?<![a-zA-Z.])(tmp|buf)(\d+)(?!\d)", lambda m: f"{m[1]}{(int(m[2]) * 5 + 3) % 101}", raw)
    if device != "cpu":
        renamed = re.sub(r"(?<![\w.])(x)(\d)(?!\w)", lambda m: f"{m[1]}{int(m[2]) * 2 + 1}", renamed)
    assert renamed != raw
    assert group_changes([ChangedText("a", "b", normalise(raw, device), normalise(renamed, device))]) == []


# One edit, or a few ---------------------------------------------------------------------------------------------------

HEAD = """kernels     1: add (pointwise 20)
extern      none
"""
KERNEL = """# kernel triton_poi_fused_add_0
@triton_heuristics.pointwise(
    size_hints={'x': 32},
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 20
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl.load(in_ptr1 + (x0), xmask)
    tmp2 = tmp0 - tmp1
    tmp3 = tl_math.abs(tmp2)
    tl.store(out_ptr0 + (x0), tmp3, xmask)
"""
CALL = """def call(args):
    arg0, arg1 = args
    assert_size_stride(arg0, (20, ), (1, ), 'input')
    assert_size_stride(arg1, (20, ), (1, ), 'input')
    with DeviceGuard(device):
        buf0 = empty_strided_device((20, ), (1, ), torch.float32)
        triton_poi_fused_add_0.run(arg0, arg1, buf0, 20)
    return (buf0, )
"""
TEXT = f"{HEAD}\n--- inference\n{KERNEL}\n{CALL}"


def titles(new: str, old: str = TEXT) -> list[str]:
    return [each.title for each in group_changes([ChangedText("c", "cuda_sm90", old, new)])]


def edited(*pairs: tuple[str, str], text: str = TEXT) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


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
        ([("extern      none", "extern      mm")], ["extern  none → mm"]),
        ([("add (pointwise 20)", "add, mul (pointwise 20)")], ["kernels  added `mul`"]),
        ([("(pointwise 20)", "(pointwise 40)")], ["kernels  sizes changed"]),
    ],
)
def test_one_edit_is_one_group_in_words(pairs, expected):
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


def test_a_second_kernel_is_the_fact_and_the_kernel():
    second = KERNEL.replace("_add_0", "_mul_0")
    call = CALL.replace("    return", "        triton_poi_fused_mul_0.run(arg0, arg1, buf0, 20)\n    return")
    new = f"{HEAD.replace('1: add (pointwise 20)', '2')}\n--- inference\n{KERNEL}\n{second}\n{call}"
    groups = group_changes([ChangedText("c", "cuda_sm90", TEXT, new)])
    assert [each.title for each in groups] == ["kernels  1 → 2", "added: a Triton kernel (pointwise)"]
    assert groups[1].facts == [("kernels  1 → 2", 1)]


def test_lost_vectorisation_is_a_fact_first():
    """Two real texts: the first would become the second if its stride were no longer 1."""
    old = text_of("flip/vflip-224-f32-channels_last", "cpu_avx512")
    new = text_of("flip/hflip-224-f32-contiguous", "cpu_avx512")
    groups = group_changes([ChangedText("flip/vflip", "cpu_avx512", old, new)])
    assert "vectorised  yes → no" in [each.title for each in groups]
    assert [each.kind for each in groups] == sorted((each.kind for each in groups), reverse=True)
    example = next(each for each in groups if each.title.startswith("vectorised")).example
    assert example.hunk[0].startswith("vectorised  yes: ")


def test_a_kernel_that_became_another_is_said_once():
    body = KERNEL.index("    xnumel = 20")
    other = "".join(f"    tmp{n} = libdevice.f{n}(in_ptr0, {n}, tl.float64) * {n}.5\n" for n in range(30))
    assert titles(TEXT.replace(KERNEL[body:], other)) == ["rewritten: a Triton kernel (pointwise)"]


def test_two_edits_in_one_text_are_two_groups_and_the_larger_is_first():
    one, two = edited(("tl_math.abs", "tl_math.exp")), edited(("{'x': 32}", "{'x': 64}"))
    both = edited(("tl_math.abs", "tl_math.exp"), ("{'x': 32}", "{'x': 64}"))
    items = [ChangedText(f"c{n}", "cuda_sm90", TEXT, text) for n, text in enumerate([one, two, both, one])]
    groups = group_changes(items)
    assert [(each.title, [member.case for member in each.members]) for each in groups] == [
        ("`abs` → `exp`", ["c0", "c2", "c3"]),
        ("`32` → `64` in `size_hints`", ["c1", "c2"]),
    ]
    assert groups[0].reach == "3 kernels, 3 cases, on cuda_sm90"
    assert "+    tmp3 = tl_math.exp(tmp2)" in groups[0].example.hunk


def test_ids_are_those_of_the_edit():
    """An id that `review --accept` takes means the same edit in every run."""
    item = ChangedText("c", "cuda_sm90", TEXT, edited(("tl_math.abs", "tl_math.exp")))
    other = ChangedText("d", "cuda_sm90", TEXT, edited(("{'x': 32}", "{'x': 64}")))
    (alone,) = group_changes([item])
    assert alone.id in {each.id for each in group_changes([other, item])}


def test_edits_of_texts_whose_facts_changed_are_within_them():
    new = edited(("kernels     1: add (pointwise 20)", "kernels     2"), ("tl_math.abs", "tl_math.exp"))
    fact, edit = group_changes([ChangedText("c", "cuda_sm90", TEXT, new)])
    assert (fact.kind, fact.within, edit.within) == ("fact", "", fact.id)


# No edit is hidden ----------------------------------------------------------------------------------------------------


def _mutated(text: str, rng: random.Random) -> str:
    """Removes or doubles a line of the code, or replaces a number, operator, name or word in it."""
    lines = text.split("\n")
    start = lines.index("")
    number = rng.choice(
        [n for n, line in enumerate(lines) if n > start and re.search(r"\w", line) and line[:3] != "---"]
    )
    line = lines[number]
    kind = rng.choice(
        ["away", "twice", r"(?<![\w.])\d+", r" [+*<-] ", r"\b(?:tmp|buf|x|in_ptr)\d+\b", r"\b[a-z_]{4,}\b"]
    )
    if kind == "away":
        return "\n".join(lines[:number] + lines[number + 1 :])
    if kind == "twice" and not line.startswith("# kernel"):
        return "\n".join([*lines[:number], line, *lines[number:]])
    places = list(re.finditer(kind, line))
    if not places or re.match(r"\s*(auto )?\w+ = ", line[places[0].start() :]):
        return text
    place = rng.choice(places)
    others = sorted(set(re.findall(kind, text)) - {place[0]})
    changed = line[: place.start()] + rng.choice(others or [place[0]]) + line[place.end() :]
    return "\n".join([*lines[:number], changed, *lines[number + 1 :]])


@pytest.mark.parametrize("seed", range(4))
def test_no_edit_hides_behind_another(seed):
    """A small edit in one text, while the whole compiler changes, is in another group."""
    rng = random.Random(seed)
    texts = sorted({text for *_, text in STORED})
    change = lambda text: keyword(helper(helper_of_many(text)))  # noqa: E731
    others = [ChangedText(f"other{n}", "t", text, change(text)) for n, text in enumerate(texts[:: len(texts) // 6])]
    wide = {each.id for each in group_changes(others)}
    for _ in range(60):
        text = rng.choice(texts)
        new = _mutated(text, rng)
        if canonical_text(new) != canonical_text(text):
            assert _small([*others, ChangedText("small", "t", text, change(new))], wide), new
            assert group_changes([ChangedText("small", "t", text, new)])


def _small(items: list[ChangedText], wide: set[str]) -> list[Group]:
    return [
        each for each in group_changes(items) if each.id not in wide and any(m.case == "small" for m in each.members)
    ]
