"""Which elements each thread combines, from Triton's ttgir."""

from __future__ import annotations

import pytest

from conformance.capture.offline.ttgir import combined

LAYOUTS = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [1, 2], order = [1, 0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 2], order = [0, 1]}>
"""


def operation(name, axis, sizes, layout):
    return f"""
    %tmp4 = "tt.{name}"(%tmp3) <{{axis = {axis} : i32}}> ({{
    ^bb0(%a: f32 loc(#loc1), %b: f32 loc(#loc2)):
      tt.{name}.return %a : f32 loc(#loc74)
    }}) : (tensor<{sizes}xf32, {layout}>) -> tensor<1xf32, #ttg.slice<{{dim = 1, parent = #blocked}}>> loc(#loc74)
"""


@pytest.mark.parametrize(
    ("operations", "found"),
    [
        ([], ""),
        ([("reduce", 1, "1x512", "#blocked")], "512: 4 x 32 x 2"),
        ([("reduce", 0, "16x64", "#blocked1")], "16: 2 x 4 x 1"),
        ([("reduce", 1, "16x64", "#blocked1"), ("scan", 1, "1x256", "#blocked")], "64: 1 x 8 x 2, 256: 4 x 32 x 2"),
        ([("reduce", 1, "1x512", "#blocked")] * 2, "512: 4 x 32 x 2"),
        ([("reduce", 1, "16x64", "#mma")], "64: #mma"),
    ],
)
def test_the_division_along_the_axis(operations, found):
    assert combined(LAYOUTS + "".join(operation(*each) for each in operations)) == found
