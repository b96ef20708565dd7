"""Known failures: which errors they excuse, entries that excuse nothing, and entries that are refused."""

import json

import pytest

from conformance.expectations.known_failure_entry import KnownFailureError
from conformance.expectations.known_failures import RanNumerics, load
from conformance.numerics.problem import Problem

ENTRY = {
    "case": ["sum/sum-f16", "sum/sum-bf16"],
    "check": "numerics",
    "target": "cpu_avx2",
    "torch": ">=2.11,<2.14",
    "error": "NaN and inf",
    "reason": "accumulates in f16",
    "issue": "not reported",
}
ITEM = ("sum/sum-f16", "numerics", "cpu_avx2")
OTHER_ITEM = ("sum/sum-bf16", "numerics", "cpu_avx2")


def written(folder, *entries):
    texts = ["\n".join(["[[failure]]", *(f"{key} = {json.dumps(value)}" for key, value in e.items())]) for e in entries]
    (folder / "sum.toml").write_text("\n\n".join(texts) + "\n")
    return folder


@pytest.fixture
def known(tmp_path):
    return load(written(tmp_path, ENTRY))


def test_an_empty_folder_is_fine(tmp_path):
    assert load(tmp_path).failures == []


def test_match_asks_for_everything(known):
    error = "NumericsError: NaN and inf must be where eager's are"
    assert known.match(*ITEM, "2.13.0+cpu", error).reason == "accumulates in f16"
    assert known.match(*ITEM, "2.13.0+cpu", "NumericsError: strides") is None
    assert known.match("sum/sum-f32", "numerics", "cpu_avx2", "2.13.0", error) is None
    assert known.match("sum/sum-f16", "code", "cpu_avx2", "2.13.0", error) is None
    assert known.match("sum/sum-f16", "numerics", "cpu_neon", "2.13.0", error) is None
    assert known.used == {ITEM}
    assert known.entry_for(*ITEM, "2.13.0").where == "sum.toml, failure 1"


@pytest.mark.parametrize(
    ("version", "applies"),
    [("2.10.1", False), ("2.11.0", True), ("2.13.1+cu128", True), ("2.14.0", False), ("2.14.0.dev20261101", False)],
)
def test_ranges(known, version, applies):
    assert (known.match(*ITEM, version, "NaN and inf") is not None) is applies


def test_an_entry_that_leaves_a_check_out(tmp_path):
    known = load(written(tmp_path, ENTRY, ENTRY | {"error": "SIGFPE", "run": False, "target": "cpu_neon"}))
    neon = ("sum/sum-f16", "numerics", "cpu_neon")
    assert known.entry_that_leaves_out(*ITEM, "2.13.0") is None  # its entry lets it run
    assert known.entry_that_leaves_out(*neon, "2.14.0") is None
    assert not known.used
    assert known.entry_that_leaves_out(*neon, "2.13.0").error == "SIGFPE"
    assert known.used == {neon}


def test_two_entries_of_one_item_with_other_errors(tmp_path):
    known = load(written(tmp_path, ENTRY, ENTRY | {"error": "strides"}))
    assert known.match(*ITEM, "2.13.0", "strides").where == "sum.toml, failure 2"


def test_passing_is_an_error_on_the_baseline_and_a_notice_on_newer_ones(tmp_path):
    known = load(written(tmp_path, ENTRY | {"torch": ">=2.11"}))
    problem = known.stale_entry(*ITEM, "2.13.0+cpu")
    assert problem.severity == "error"
    assert problem.message.startswith("sum.toml, failure 1: sum/sum-f16 on cpu_avx2 passes")
    assert known.stale_entry(*ITEM, "2.15.0").severity == "notice"
    assert known.stale_entry("sum/sum-f32", "numerics", "cpu_avx2", "2.13.0") is None


def test_unused_is_only_what_ran(known):
    assert known.unused_entries([], "2.13.0") == []
    assert known.unused_entries([("sum/sum-f16", "code", "cpu_avx2")], "2.13.0") == []
    (problem,) = known.unused_entries([ITEM, OTHER_ITEM], "2.13.0")
    assert problem.severity == "error"
    assert "matched nothing, although 2 of its items ran" in problem.message
    assert known.unused_entries([ITEM], "2.14.0") == [], "the range has ended"
    known.add_used([ITEM])
    assert known.unused_entries([ITEM, OTHER_ITEM], "2.13.0") == []


def test_what_occurs_sometimes_is_never_stale(tmp_path):
    known = load(written(tmp_path, ENTRY | {"sometimes": "which element is NaN"}))
    assert known.match(*ITEM, "2.13.0", "NumericsError: NaN and inf").sometimes == "which element is NaN"
    assert known.stale_entry(*ITEM, "2.13.0") is None
    assert known.unused_entries([ITEM, OTHER_ITEM], "2.13.0") == []


#: An entry with two problems, for two cases on two targets.
PROBLEMS = """
[[failure]]
case = ["sum/sum-f16", "sum/sum-bf16"]
check = "numerics"
target = ["cpu_avx2", "cpu_neon"]
torch = ">=2.11"
problems = [
  { call = "first", tensor = "output", rule = "strides" },
  { call = ["nan", "inf"], tensor = "output", rule = "dtype" },
]
reason = "why"
issue = "not reported"
"""


def test_a_problem_that_occurs_in_no_item(tmp_path):
    (tmp_path / "sum.toml").write_text(PROBLEMS)
    known = load(tmp_path)
    strides, dtype = Problem("output", "strides", "text", "first"), Problem("output", "dtype", "text", "inf")
    ran = {("sum/sum-f16", "cpu_avx2"): RanNumerics("native", [strides])}
    assert known.unused_problems(ran, "2.13.0", ["cpu_neon"]) == [], "one of the cases did not run"
    ran["sum/sum-bf16", "cpu_avx2"] = RanNumerics("native")
    assert known.unused_problems(ran, "2.13.0") == [], "one of the targets did not run"
    (problem,) = known.unused_problems(ran, "2.13.0", ["cpu_neon"])
    assert problem.severity == "error"
    assert problem.message.startswith(
        "sum.toml, failure 1: its problem 2 (nan, inf: output dtype) occurred in none of its 2 items"
    )
    ran["sum/sum-bf16", "cpu_avx2"] = RanNumerics("native", [dtype])
    assert known.unused_problems(ran, "2.13.0", ["cpu_neon"]) == []
    ran = dict.fromkeys(ran, RanNumerics("native"))
    assert known.unused_problems(ran, "2.13.0", ["cpu_neon"]) == [], "unused_entries reports an entry without a problem"


def test_entries_of_one_mode(tmp_path):
    known = load(written(tmp_path, ENTRY | {"mode": "deviceless"}))
    error = "NumericsError: NaN and inf"
    assert known.match(*ITEM, "2.13.0", error, "native") is None
    assert known.stale_entry(*ITEM, "2.13.0", "native") is None
    assert known.unused_entries([ITEM], "2.13.0", {("sum/sum-f16", "cpu_avx2"): "native"}) == []
    (problem,) = known.unused_entries([ITEM], "2.13.0", {("sum/sum-f16", "cpu_avx2"): "deviceless"})
    assert problem.severity == "error"
    assert known.stale_entry(*ITEM, "2.13.0", "deviceless").severity == "error"
    assert known.match(*ITEM, "2.13.0", error, "deviceless").mode == "deviceless"
    assert load(written(tmp_path, ENTRY | {"mode": "native"}, ENTRY | {"mode": "deviceless"})).failures


def test_entries_of_a_backend(tmp_path):
    folder = written(tmp_path, ENTRY, ENTRY | {"via": ["export", "jit_trace"]}, ENTRY | {"backend": "aot_eager"})
    error = "NumericsError: NaN and inf"
    for number, option in enumerate(("", "--via export", "--backend aot_eager"), 1):
        known = load(folder, option)
        (problem,) = known.unused_entries([ITEM], "2.13.0")
        assert problem.message.startswith(f"sum.toml, failure {number}: matched nothing")
        assert known.stale_entry(*ITEM, "2.13.0").message.startswith(f"sum.toml, failure {number}: ")
        assert known.match(*ITEM, "2.13.0", error).where == f"sum.toml, failure {number}"
        assert known.unused_entries([ITEM], "2.13.0") == []
    both = written(tmp_path, ENTRY | {"via": "export", "backend": ["inductor", "eager"]})
    assert load(both).failures[0].backend_options == ("--via export", "", "--backend eager")
    other = load(folder, "--via jit_script")
    assert other.match(*ITEM, "2.13.0", error) is other.stale_entry(*ITEM, "2.13.0") is None
    assert other.unused_entries([ITEM], "2.13.0") == []


def test_entries_for_what_does_not_exist(known):
    known.validate(ENTRY["case"], ["cpu_avx2"])
    with pytest.raises(KnownFailureError, match="no case 'sum/sum-bf16'; did you mean 'sum/sum-f16'"):
        known.validate(["sum/sum-f16"], ["cpu_avx2"])
    with pytest.raises(KnownFailureError, match="there is no target 'cpu_avx2'"):
        known.validate(ENTRY["case"], ["xpu_pvc"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"check": "speed"}, "unknown check 'speed'; known are compile, numerics, requirements, code"),
        (
            {"torch": "2.13 and later"},
            "not a version range; write one such as '>=2.11,<2.14'",
        ),
        ({"torch": ""}, "torch is ''; write a text that is not empty"),
        ({"error": ""}, "error is ''; write a text that is not empty"),
        ({"reason": 3}, "reason is 3; write a text"),
        ({"issue": "someday"}, "write its URL, or 'not reported'"),
        ({"case": "sum/*"}, "names are exact"),
        ({"case": []}, "write a name or a list of names"),
        ({"target": ["cpu_avx2", "cpu_avx2"]}, "target names 'cpu_avx2' twice"),
        ({"mode": "remote"}, "mode is 'remote'; write native or deviceless, or leave it out for both"),
        ({"via": "compile"}, "via is 'compile'; write jit_trace or jit_script or export, or leave it out"),
        ({"run": "no"}, "run is 'no'; write `run = false`, or leave it out"),
        ({"run": False, "torch": ">=2.11"}, "end the range, as in torch = '>=2.11,<2.14'"),
        ({"until": "2.14"}, "unknown key 'until'; the keys are case, check"),
    ],
)
def test_malformed_entries(tmp_path, change, text):
    with pytest.raises(KnownFailureError, match=r"sum\.toml, failure 2: ") as caught:
        load(written(tmp_path, ENTRY, ENTRY | {"error": "other"} | change))
    assert text in str(caught.value)


@pytest.mark.parametrize("key", ENTRY)
def test_missing_keys(tmp_path, key):
    text = "write either 'error'" if key == "error" else f"'{key}' is missing"
    with pytest.raises(KnownFailureError, match=f"failure 1: {text}"):
        load(written(tmp_path, {k: v for k, v in ENTRY.items() if k != key}))


def test_files_that_are_none(tmp_path):
    (tmp_path / "bad.toml").write_text("[[failure]\n")
    with pytest.raises(KnownFailureError, match=r"bad\.toml is not valid TOML: "):
        load(tmp_path)
    (tmp_path / "bad.toml").write_text("[failures]\n")
    with pytest.raises(KnownFailureError, match=r"'failures' is not expected; the file is a list of \[\["):
        load(tmp_path)
    (tmp_path / "bad.toml").write_text("[failure]\n")
    with pytest.raises(KnownFailureError, match="'failure' is not expected"):
        load(tmp_path)


def test_two_entries_for_the_same_failure(tmp_path):
    with pytest.raises(KnownFailureError, match=r"2: repeats sum\.toml, failure 1 for sum/sum-f16 numerics cpu_avx2"):
        load(written(tmp_path, ENTRY, ENTRY))


def test_entries_for_an_option_of_the_run(tmp_path):
    """They apply beside the others, and may be for any case."""
    of_option = {"inductor-config": "cpu_backend=halide", "error": "RuntimeError: halide_kernel failed"}
    folder = written(tmp_path, ENTRY, ENTRY | of_option | {"case": "*"})
    usual, chosen = load(folder), load(folder, inductor_options=("--inductor-config cpu_backend=halide",))
    error = "RuntimeError: halide_kernel failed"
    assert usual.match("sum/sum-i64", "numerics", "cpu_avx2", "2.13.0", error) is None
    assert chosen.match("sum/sum-i64", "numerics", "cpu_avx2", "2.13.0", error)
    assert chosen.match(*ITEM, "2.13.0", "NumericsError: NaN and inf")
    assert chosen.stale_entry("sum/sum-i64", "numerics", "cpu_avx2", "2.13.0") is None, "it has not said that all fail"
    chosen.validate(["sum/sum-f16", "sum/sum-bf16"], ["cpu_avx2"])
    with pytest.raises(KnownFailureError, match="names are exact"):
        load(written(tmp_path, ENTRY | {"case": "*"}))


def test_a_target_that_is_like_one_that_is_like_a_third(tmp_path, monkeypatch):
    """As the smaller GPU of a vendor's plugin: its entries are those of the larger one, and of the suite's row."""
    like = {"mine_small": "mine", "mine": "cuda_sm90"}
    monkeypatch.setattr("conformance.expectations.known_failures.excused_like", lambda target: like.get(target, ""))
    suite, plugin = tmp_path / "suite", tmp_path / "plugin"
    for folder, target in {suite: "cuda_sm90", plugin: "mine"}.items():
        folder.mkdir()
        written(folder, ENTRY | {"target": target, "error": f"entry of {target}"})
    found = load(suite, overlays=[str(plugin)])
    for target in ("mine", "mine_small"):
        errors = found.errors("sum/sum-f16", "numerics", target, "2.13.0")
        assert errors == ["entry of mine", "entry of cuda_sm90"]
