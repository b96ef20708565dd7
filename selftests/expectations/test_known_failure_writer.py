"""Known failures that are written from a run: they excuse what failed, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.expectations import known_failure_writer
from conformance.expectations.known_failure_entry import KnownFailureError
from conformance.expectations.known_failure_writer import Failure, WriteError, narrow_error, write_known_failures
from conformance.expectations.known_failures import load
from conformance.numerics.problem import Problem, WrongValues

TORCH = "2.13.0+cpu"


def wrong(call="first", tensor="output", off_by=0.123456, share=0.0301, **changes):
    values = WrongValues(changes or {"number → number": 3}, share, off_by)
    return Problem(tensor, "values", f"{tensor}: wrong", call, values)


def numerics(case="flip/hflip-f32", target="cuda_sm90", problems=(), mode="deviceless"):
    return Failure(case, "numerics", target, mode, "NumericsError: wrong", tuple(problems or [wrong()]))


def compile_failure(case="flip/hflip-f32", target="cuda_sm90", message="KeyError: 'buf0 of flip'"):
    return Failure(case, "compile", target, "deviceless", message)


def write(folder, *failures, option=""):
    return write_known_failures(folder, failures, TORCH, option)


def excuse(known, failure, torch=TORCH, problems=None):
    problems = failure.problems if problems is None else problems
    return known.match(failure.case, failure.check, failure.target, torch, failure.message, failure.mode, problems)


def test_entries_excuse_what_failed_and_nothing_else(tmp_path):
    failures = [numerics(), compile_failure("cat/cat-f32"), compile_failure("cat/cat-f16", "cpu_avx2")]
    written = write(tmp_path, *failures)
    assert (written.entries, written.failures, written.left_out) == (3, 3, {})
    assert [file.name for file in written.files] == ["flip.toml", "cat.toml"]
    known = load(tmp_path)
    assert all(excuse(known, failure) for failure in failures)
    for change in ({"target": "cpu_avx2"}, {"case": "flip/other"}, {"mode": "native"}, {"check": "deviceless"}):
        assert excuse(known, dataclasses.replace(failures[0], **change)) is None
    for torch in ("2.12.1", "2.14.0"):
        assert excuse(known, failures[0], torch) is None
    assert excuse(known, failures[0], "2.13.1")
    assert excuse(known, dataclasses.replace(failures[1], message="KeyError: 'buf0 of cat'")) is None
    assert excuse(known, dataclasses.replace(failures[1], target="cpu_avx2")) is None, "it did not fail there"


@pytest.mark.parametrize(
    "worse",
    [
        wrong(call="second"),
        wrong(tensor="output[1]"),
        wrong(off_by=0.2),
        wrong(share=0.04),
        wrong(**{"number → number": 1, "NaN → 0": 1}),
    ],
)
def test_problems_are_as_narrow_as_what_occurred(tmp_path, worse):
    write(tmp_path, numerics())
    known = load(tmp_path)
    assert excuse(known, numerics(), problems=[wrong(off_by=0.124, share=0.03)]), "the last digits may differ"
    assert excuse(known, numerics(), problems=[worse]) is None


def test_problems_that_differ_in_the_call_share_a_table(tmp_path):
    raises = Problem("", "raises", "compiled raised IndexError: index 7 is out of bounds\n  eager …", "inf")
    strides = Problem("output", "strides", "output: strides", "first")
    failure = numerics(problems=[wrong(), wrong("second"), raises, strides])
    write(tmp_path, failure)
    (entry,) = load(tmp_path).failures
    assert [(each.calls, each.rule) for each in entry.excuses] == [
        (("first", "second"), "values"),
        (("inf",), "raises"),
        (("first",), "strides"),
    ]
    assert excuse(load(tmp_path), failure)
    assert (
        excuse(load(tmp_path), failure, problems=[dataclasses.replace(raises, text="compiled raised KeyError")]) is None
    )


def test_failures_with_one_cause_share_an_entry(tmp_path):
    """Not with a target on which one of the cases does not fail."""
    both = [compile_failure(case, target) for case in ("flip/a", "flip/b") for target in ("cpu_avx2", "cuda_sm90")]
    write(tmp_path, *both, compile_failure("flip/c", "cuda_sm90"))
    found = {failure.cases: failure.targets for failure in load(tmp_path).failures}
    assert found == {("flip/a", "flip/b"): ("cpu_avx2", "cuda_sm90"), ("flip/c",): ("cuda_sm90",)}


def test_requirements_are_named_all_and_with_their_values(tmp_path):
    message = (
        "RequirementError: flip/a on cpu_avx2: kernels: wanted 1, got 2 (also vectorised); "
        "2 of 3 requirements not met\n"
        "  kernels: wanted 1, got 2\n  vectorised: wanted 'yes', got 'no'\nfix the cause, or edit the requirements"
    )
    failure = Failure("flip/a", "requirements", "cpu_avx2", "native", message)
    write(tmp_path, failure)
    known = load(tmp_path)
    assert known.failures[0].error == "kernels: wanted 1, got 2\n  vectorised: wanted 'yes', got 'no'"
    assert excuse(known, failure)
    assert excuse(known, dataclasses.replace(failure, message=message.replace("got 2", "got 3"))) is None


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("KeyError: 'buf0 of flip'", "KeyError: 'buf0 of flip"),
        ("ValueError: /tmp/x1/out.cpp: no member named foo in bar", "no member named foo in bar"),
        (
            "CppCompileError: C++ compile error\n\nCommand: g++ /tmp/a.cpp\n/tmp/a.cpp:3:1: error: no type named 'half",
            "error: no type named 'half",
        ),
        ("RuntimeError: the storage at 0x7f12ab has no device memory", "has no device memory"),
        (
            "InductorError: LoweringException: AssertionError: \n  target: aten.flip.default",
            "target: aten.flip.default",
        ),
        ("AssertionError: ", ""),
        ("InductorError: NotImplementedError: \n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace", ""),
        ("RuntimeError: /tmp/a/b/c", ""),
    ],
)
def test_narrow_errors(message, error):
    assert narrow_error(message) == error


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure("flip/a", "code", "cpu_avx2", "native", "CodeError: x"), "store it with EXPECTTEST_ACCEPT=1"),
        (Failure("flip/a", "numerics", "cpu_avx2", "native", ""), "it ended without an error of its own"),
        (Failure("flip/a", "device", "cuda_sm90", "native", "DeviceError: x"), "no known failure can excuse"),
        (compile_failure(message="AssertionError: "), "its message says too little of the cause"),
        (numerics(problems=[Problem("output", "reference", "none", "first")]), "the declaration of the case is wrong"),
    ],
)
def test_what_is_left_out(tmp_path, failure, reason):
    written = write(tmp_path / "new", failure)
    assert (written.entries, written.files) == (0, [])
    [(found, failures)] = written.left_out.items()
    assert found.startswith(reason)
    assert failures == [failure]
    assert not (tmp_path / "new").exists()


def test_what_is_there_stays(tmp_path):
    write(tmp_path, compile_failure())
    text = "# ours\n" + (tmp_path / "flip.toml").read_text().replace(known_failure_writer.REASON, "a reason")
    (tmp_path / "flip.toml").write_text(text)
    write(tmp_path, numerics())
    assert (tmp_path / "flip.toml").read_text().startswith(text)
    assert [failure.reason for failure in load(tmp_path).failures] == ["a reason", "to be explained"]


def test_options_of_the_run(tmp_path):
    write(tmp_path, numerics(mode="native"), option="--via export")
    assert load(tmp_path).failures[0].backend_options == ("--via export",)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="known failures cannot be written"):
        write(tmp_path / "file", compile_failure())


ENTRY = """[[failure]]
case = "flip/{case}"
check = "numerics"
target = "{target}"
torch = ">=2.11"
problems = [{{ call = "first", tensor = "output", rule = "strides" }}]
reason = "because"
issue = "not reported"
"""
STRIDES = Problem("output", "strides", "output: strides", "first")


@pytest.fixture
def layers(tmp_path):
    """The folder beside the cases, and an overlay."""
    folders = tmp_path / "own", tmp_path / "vendor"
    for folder in folders:
        folder.mkdir()
    return folders


def test_entries_of_an_overlay_and_those_beside_the_cases_both_apply(layers):
    own, vendor = layers
    (own / "flip.toml").write_text(ENTRY.format(case="a", target="xpu_pvc"))
    (vendor / "flip.toml").write_text(ENTRY.format(case="a", target="xpu_pvc_1100").replace('"strides"', '"shape"'))
    known = load(own, overlays=[str(vendor)])
    shape = dataclasses.replace(STRIDES, rule="shape")
    assert known.match("flip/a", "numerics", "xpu_pvc_1100", TORCH, "", "", [STRIDES, shape]), "a variant of xpu_pvc"
    assert known.match("flip/a", "numerics", "xpu_pvc", TORCH, "", "", [shape]) is None
    assert [(failure.where, failure.layer) for failure in known.failures] == [
        ("flip.toml, failure 1", ""),
        (f"{vendor}/flip.toml, failure 1", str(vendor)),
    ]


def test_an_entry_that_repeats_one_of_another_layer_is_refused(layers):
    own, vendor = layers
    for folder in layers:
        (folder / "flip.toml").write_text(ENTRY.format(case="a", target="xpu_pvc"))
    with pytest.raises(
        KnownFailureError, match=r"vendor/flip.toml, failure 1: repeats flip.toml, failure 1 for flip/a"
    ):
        load(own, overlays=[str(vendor)])


def test_an_overlay_may_name_cases_that_were_not_collected(layers):
    _, vendor = layers
    (vendor / "flip.toml").write_text(ENTRY.format(case="a", target="xpu_pvc"))
    known = load(None, overlays=[str(vendor)])
    known.validate(["cat/cat"], ["xpu_pvc"], {"cat"})
    with pytest.raises(KnownFailureError, match=r"vendor/flip.toml, failure 1: there is no case 'flip/a'"):
        known.validate(["flip/b"], ["xpu_pvc"], {"flip"})
    with pytest.raises(KnownFailureError, match="there is no target 'xpu_pvc'"):
        known.validate(["cat/cat"], ["cuda_sm90"], {"cat"})
