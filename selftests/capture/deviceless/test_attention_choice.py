"""Which attention implementation PyTorch chooses on a pretended device, and that it traces, forward and backward.

The expected choices for cuda come from libtorch_cuda.so of torch 2.11 and 2.15, called with the capability. Those for
xpu come from PyTorch's source. "a/b": a before torch 2.14, b since.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conformance.capture.deviceless import pretended_device
from conformance.devices import environment

TARGETS = {
    "sm80": ["cuda", 8, 0, 0],
    "sm90": ["cuda", 9, 0, 0],
    "sm100": ["cuda", 10, 0, 0],
    "xpu": ["xpu", 1, 0, 0],
}
ROCM = ["cuda", 9, 4, 0, "rocm"]
F32 = {"dtype": "float32"}
BF16 = {"dtype": "bfloat16"}
GRAD = {"grad": True}
BOOL = {"mask": "bool"}
FLOAT = {"mask": "float"}
GQA = {"kv_heads": 2, "gqa": True}

# case: sm80, sm90, sm100, xpu, why. By default, q, k and v are float16 of shape (2, 4, 128, 64).
ROWS: list[tuple[dict[str, Any], str, str, str, str, str]] = [
    ({}, "flash", "cudnn", "cudnn", "overrideable", "cuDNN first on 9.0 and 10.x; oneDNN first on xpu"),
    (BF16, "flash", "cudnn", "cudnn", "overrideable", "as float16"),
    (F32, "efficient", "efficient", "efficient", "overrideable", "cuDNN and flash take half precision only"),
    ({"dtype": "float64"}, "math", "math", "math", "math", "no kernel takes it"),
    (GRAD, "flash", "cudnn", "cudnn", "flash", "oneDNN has no backward"),
    (BF16 | GRAD, "flash", "cudnn", "cudnn", "flash", "as float16"),
    (F32 | GRAD, "efficient", "efficient", "efficient", "math", "nor has xpu another one for float32"),
    ({"causal": True}, "flash", "cudnn", "cudnn", "overrideable", "all know causal"),
    ({"causal": True} | GRAD, "flash", "cudnn", "cudnn", "flash", "all know causal"),
    ({"causal": True, "k": 192}, "efficient", "cudnn", "cudnn", "overrideable", "flash: square masks only"),
    ({"causal": True, "k": 192} | GRAD, "efficient", "cudnn", "cudnn", "math", "flash: square masks only"),
    (BOOL, "efficient", "cudnn", "cudnn", "overrideable", "flash takes no mask"),
    (BOOL | GRAD, "efficient", "cudnn", "cudnn", "math", "flash takes no mask"),
    (FLOAT, "efficient", "cudnn", "cudnn", "overrideable", "flash takes no mask"),
    (FLOAT | GRAD, "efficient", "cudnn", "cudnn", "math", "flash takes no mask"),
    (F32 | BOOL, "efficient", "efficient", "efficient", "overrideable", "flash takes no mask"),
    (BOOL | {"mask_shape": (2, 1, 1, 128)}, "efficient", "cudnn", "cudnn", "overrideable", "masks that broadcast"),
    ({"scale": 0.5}, "flash", "cudnn", "cudnn", "overrideable", "the scale is any number"),
    ({"scale": 0.5} | GRAD, "flash", "cudnn", "cudnn", "flash", "the scale is any number"),
    (GQA, "flash", "cudnn", "cudnn", "overrideable", "grouped heads"),
    (GQA | GRAD, "flash", "cudnn", "cudnn", "flash", "grouped heads"),
    (GQA | F32, "math/efficient", "math/efficient", "math/efficient", "overrideable", "efficient learnt them in 2.14"),
    (GQA | BOOL, "math/efficient", "cudnn", "cudnn", "overrideable", "efficient learnt them in 2.14"),
    ({"d": 128}, "flash", "cudnn", "cudnn", "overrideable", "a head all know"),
    ({"d": 72}, "flash", "cudnn", "cudnn", "overrideable", "a multiple of 8"),
    ({"d": 72} | GRAD, "flash", "cudnn", "cudnn", "flash", "flash on xpu pads it to 128"),
    ({"d": 20}, "flash", "flash", "flash", "overrideable", "not a multiple of 8; flash on cuda pads it"),
    ({"d": 20} | GRAD, "flash", "flash", "flash", "flash", "not a multiple of 8; flash pads it"),
    (F32 | {"d": 72}, "efficient", "efficient", "efficient", "overrideable", "a multiple of 4"),
    (F32 | {"d": 18}, "math", "math", "math", "overrideable", "not a multiple of 4"),
    ({"d": 256}, "flash", "cudnn", "flash/cudnn", "overrideable", "cuDNN 9.10 on 9.0, cuDNN 9.22 on 10.x"),
    ({"d": 256} | GRAD, "flash", "cudnn", "flash/cudnn", "math", "flash on xpu: up to 192"),
    ({"d": 264}, "efficient", "efficient", "efficient", "overrideable", "wider than flash"),
    ({"d": 584}, "efficient", "efficient", "efficient", "math", "wider than oneDNN"),
    ({"dv": 32}, "efficient", "cudnn", "cudnn", "overrideable", "flash: values as wide as keys"),
    ({"k": 1}, "flash", "flash", "flash", "overrideable", "cuDNN: more than one key"),
    ({"q": 1}, "flash", "cudnn", "cudnn", "overrideable", "decoding"),
    ({"dropout": 0.25}, "flash", "cudnn", "cudnn", "math", "xpu's kernels have no dropout"),
    ({"dropout": 0.1}, "flash", "cudnn/flash", "cudnn/flash", "math", "cuDNN: sixteenths, asked since 2.12"),
    ({"deterministic": True}, "flash", "flash", "flash", "overrideable", "cuDNN is not"),
    ({"deterministic": True} | GRAD, "flash", "flash", "flash", "math", "nor is flash on xpu"),
    ({"transposed": True}, "math", "math", "math", "math", "the last dimension has to be dense"),
    ({"dims": 3}, "math/flash", "math/cudnn", "math/cudnn", "math/overrideable", "a batch is added since 2.14"),
    ({"inference": True}, "flash", "cudnn", "cudnn", "overrideable", "no autograd before it"),
    ({"backends": ["FLASH_ATTENTION", "MATH"]}, "flash", "flash", "flash", "flash", "the user's choice"),
    ({"backends": ["EFFICIENT_ATTENTION"]}, "efficient", "efficient", "efficient", "math", "the user's choice"),
    ({"backends": ["MATH", "FLASH_ATTENTION"], "priority": True}, "math", "math", "math", "math", "the user's order"),
    ({"dynamic": True}, "flash", "cudnn", "cudnn", "overrideable", "sizes that are symbols"),
    ({"dynamic": True, "causal": True, "k": 192}, "efficient", "cudnn", "cudnn", "overrideable", "their hints differ"),
]
#: Cases where "a/b" means before and since 2.12.
SINCE_2_12 = ({"dropout": 0.1},)
FULL = {"flash": "flash_attention", "cudnn": "cudnn_attention", "efficient": "efficient_attention",
        "overrideable": "fused_attention_overrideable", "math": "math"}  # fmt: skip


Question = tuple[str, dict[str, Any]]


def ask(questions: Iterable[Question]) -> list[list[str]]:
    """The answers of one process, in order: a target must not affect the next one."""
    built = pretended_device._build_library(environment.torch_build())  # the library without the plugin
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("attention_driver.py")), str(built)],
        input=json.dumps([((TARGETS | {"rocm": ROCM})[target], case) for target, case in questions]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers() -> dict[str, list[str]]:
    """Question, as JSON → its answer. One process gets the questions of all tests."""
    questions = [
        *((target, row[0]) for row in ROWS for target in TARGETS),
        *(("rocm", case) for case, _ in ROCM_ROWS),
        *ALTERNATING,
        GUARDED,
        *((target, EVERYTHING | case) for case in AROUND for target in ("sm80", "xpu")),
    ]
    found: dict[str, list[str]] = {}
    for question, answer in zip(questions, ask(questions), strict=True):
        assert found.setdefault(json.dumps(question), answer) == answer, f"{question}: not the same a second time"
    return found


def expected(case: dict[str, Any], answer: str) -> list[str]:
    before, _, since = answer.partition("/")
    changed = (2, 12) if case in SINCE_2_12 else (2, 14)
    name = FULL[since if since and environment.torch_build().release >= changed else before]
    return [name, f"!{name}_backward"] if case.get("grad") and name != "math" else [name]


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda number: f"{number}-{ROWS[number][-1].split(':')[0]}")
def test_choice(number, answers):
    case, *chosen, why = ROWS[number]
    should = {target: expected(case, answer) for target, answer in zip(TARGETS, chosen, strict=True)}
    assert {target: answers[json.dumps((target, case))] for target in TARGETS} == should, f"{case}: {why}"


#: case: rocm. From PyTorch's source: nobody compared it with a device.
ROCM_ROWS: list[tuple[dict[str, Any], str]] = [
    ({}, "flash"),
    (BF16 | GRAD, "flash"),
    ({"d": 512}, "flash"),
    ({"d": 576}, "math"),
    (GQA, "flash"),
    (F32 | GRAD, "efficient"),
    (GQA | F32, "math"),
    (BOOL, "efficient"),
    (BOOL | GRAD, "efficient"),
    ({"causal": True, "k": 192}, "efficient"),
    ({"d": 64, "dv": 32}, "math/efficient"),
    ({"dtype": "float64"}, "math"),
]


#: The platforms after each other.
ALTERNATING: list[Question] = [("rocm", {}), ("sm90", {}), ("rocm", {})]
GUARDED: Question = ("sm90", {"dynamic": True, "guards": True, "q": 100, "k": 90, "d": 64})
EVERYTHING = {"everything": True}
AROUND: list[dict[str, Any]] = [
    BOOL | F32,
    {"backends": ["MATH"]} | BOOL | GRAD,
    {"backends": ["MATH"], "causal": True} | GQA,
]


def test_choice_on_rocm(answers):
    """AOTriton has flash and efficient attention, and there is no cuDNN."""
    for case, answer in ROCM_ROWS:
        assert answers[json.dumps(("rocm", case))] == expected(case, answer), case
    assert [answers[json.dumps(each)] for each in ALTERNATING] == [[FULL[name]] for name in ("flash", "cudnn", "flash")]


def test_lengths_stay_dynamic(answers):
    """Guards check heads and limits, not lengths: code for one length serves other lengths."""
    guarded = answers[json.dumps(GUARDED)]
    assert guarded[0] == "cudnn_attention"
    assert not [guard for guard in guarded[1:] if "100" in guard or "90" in guard]


@pytest.mark.long("it captures attention with its backward for two devices")
@pytest.mark.parametrize("case", AROUND, ids=["mask", "backward", "causal"])
def test_xpu_does_what_cuda_does_around_the_kernel(answers, case):
    """PyTorch makes the steps before and after the kernel on cuda. On xpu our code does, since PyTorch's cannot run."""
    cuda, xpu = (
        [name for name in names if "attention" not in name and name != "expand"]  # a mask is expanded for efficient
        for names in (answers[json.dumps((target, EVERYTHING | case))] for target in ("sm80", "xpu"))
    )
    assert cuda == xpu
