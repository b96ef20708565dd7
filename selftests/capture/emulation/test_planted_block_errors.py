"""Errors in the place of a block, planted into the code of real cases: the emulation finds them.

A kernel that runs one program does not notice a wrong offset of its block, and a loop that runs once does not notice
that it ends too early. So each error shows only with configurations that divide the work.
"""

import re
from dataclasses import replace

import pytest

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.lookup import find_case
from conformance.devices import environment

pytestmark = pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed: pip install triton")

CASES = (
    "reduction/long_rows-f32-softmax", "reduction/long_rows-f32-var", "reduction/long_rows-bf16-softmax",
    "reduction/long_rows-bf16-var", "reduction/ties-i64-all", "reduction/ties-i64-argmax", "reduction/sum-f32-65536",
    "reduction/rows-amax-f32", "reduction/mean_of-transposed-columns", "reduction/var_mean-f32", "reduction/cumsum-f32",
    "reduction/rows_backward-prod", "reduction/rows_backward-amax", "reduction/rows_backward-var",
    "reduction/dynamic-sum", "reduction/dynamic-softmax",
    "scan/sizes-3x1025", "scan/columns-cummax", "scan/dynamic", "scan/backward-cumsum", "scan/backward-cumprod",
    "scan/backward-cummax", "scan/backward-logcumsumexp",
    "softmax/sizes-3x1025", "softmax/dimensions-f32-contiguous-softmax-columns", "softmax/backward-log_softmax-f32",
    "sum/backward-sum_twice", "sum/dynamic-middle", "var/sizes-3x1025", "var/functions-var_mean",
    "extremes/sizes-1x1025", "extremes/columns-f32-argmax", "extremes/any_and_all-bool-any",
    "norm/layer_norm-plain-f32-forward-static", "norm/layer_norm-plain-f32-backward-static",
    "norm/batch_norm_train-contiguous-forward", "norm/batch_norm_train-contiguous-backward",
    "norm/rms_norm-f32-backward", "norm/rms_norm_without_weight-dynamic",
    "norm/group_norm-contiguous-plain-f32-backward", "norm/of_images_backward-instance",
    "pointwise/add-3-f32-static", "pointwise/add-1000-bool-static", "pointwise/add_layouts-transposed",
    "pointwise/where_clamp-i32", "pointwise/broadcast-backward", "flip/dtypes-bool", "flip/hflip-224-u8-sliced",
)  # fmt: skip

#: Error → the pattern of the code that it replaces, and the replacement.
ERRORS = {
    "the loop ends after its first iteration": (
        re.compile(r"(?<=range\(0, )(?P<axis>r\d_)numel(?=, R\d_BLOCK)"), "1"
    ),
    "each program computes the first block": (
        re.compile(r"(?<=[xyz]offset = )tl\.program_id\(\d\).* \* (?P<axis>[XYZ])BLOCK"), "0"
    ),
}  # fmt: skip

#: (case, error) → why nothing can show.
NOT_FOUND = {
    ("reduction/dynamic-softmax", "the loop ends after its first iteration"): (
        "one of its loops finds the largest element. Softmax subtracts it only to avoid overflow, which values between "
        "0.1 and 1 never cause"
    ),
    ("reduction/ties-i64-all", "the loop ends after its first iteration"): (
        "the first of the largest elements is among the first few in every call, because there are five values"
    ),
}


def planted(text):
    """(error, the text with it) for each place of the generated code where it can show."""
    for error, (pattern, replacement) in ERRORS.items():
        for place in pattern.finditer(text):
            before = text[: place.start()]
            elements = re.findall(rf"^    {place['axis'].lower()}numel = (\d+)$", before, re.MULTILINE)
            if elements[-1:] != ["1"]:
                yield error, before + replacement + text[place.end() :]


def survivors(name):
    """(how many errors were planted into the code of a case, those that were not found)."""
    from conformance.capture.emulation.fake_strides import with_device_strides
    from conformance.capture.emulation.wrapper import Emulation
    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.devices.targets import targets
    from conformance.numerics.check import check_numerics

    prepare()
    target = targets()["cuda_sm90"]
    declared, _ = find_case(name, targets())
    emulation, texts = Emulation(target), []

    def keep(text):
        if text not in texts:
            texts.append(text)
        return text

    emulation.rewrite = keep
    with capture(CaseRequest(declared, target, texts=False), emulation) as captured:

        def check():
            check_numerics(
                replace(declared, fn=with_device_strides(declared.fn)), captured.compiled, target.device, target.name
            )

        check()
        assert not emulation.extents.report().shortfalls
        plants = [(error, text, changed) for text in texts for error, changed in planted(text)]
        missed = []
        for error, original, changed in plants:
            emulation.rewrite = lambda text, original=original, changed=changed: changed if text == original else text
            try:
                check()
            except AssertionError:
                continue
            missed.append((name, error))
    return len(plants), missed


@pytest.mark.long("it plants each error in a kernel of its own and interprets it block by block")
def test_errors_in_the_place_of_a_block_are_found():
    found = [survivors(name) for name in CASES]
    missed = [each for _, names in found for each in names]
    assert all(count for count, _ in found)
    assert sum(count for count, _ in found) >= 100
    assert set(missed) == set(NOT_FOUND)
    assert len(missed) <= 0.02 * sum(count for count, _ in found)
