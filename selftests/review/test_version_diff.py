"""`diff`: the changes between two stored versions. And how many compared texts are confirmed."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline

from conformance.cli.main import main
from conformance.harness.ending.summary import unconfirmed_lines
from conformance.review.version_diff import split_grouped_assertions
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Store


def text(kernels, policy):
    return f"""\
kernels     {kernels}
fallbacks   none

--- inference
# kernel triton_poi_mul_0
@triton.jit
def triton_poi_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 20
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask{policy})
    tmp1 = tl.full([1], 2.0, tl.float32)
    tmp2 = tmp0 * tmp1
    tl.store(out_ptr0 + (x0), tmp2, xmask)

def call(args):
    return 1
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops/test_scale.py").touch()
    store = Store(tmp_path / "ops/expected_code")
    for case, kernels in (("scale/a", "1: mul"), ("scale/b", "2: mul")):
        old, new = text("1: mul", ""), text(kernels, ", eviction_policy='evict_first'")
        store.merge({case: {("2.13", t): old for t in ("cpu_avx2", "cuda_sm80", "cuda_sm90")}})
        store.merge({case: {("2.15", "cuda_sm80"): new, ("2.15", "cuda_sm90"): new, ("2.15", "xpu_pvc"): new}})
        store.merge({case: {("2.15", "cpu_avx2"): old}})
    return tmp_path


def test_diff(project, capsys):
    assert main(["compare", "2.13", "2.15", "ops", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert_expected_inline(
        out.replace("→", "->").replace("…", "..."),
        """\
# Generated code, torch 2.13 -> 2.15

6 texts of 2 cases are stored for both versions; 4 texts of 2 cases differ.
2 texts are stored for 2.15 only.

|  | texts | differ | facts differ | causes |
|---|---|---|---|---|
| cpu | 2 | 0 | 0 | 0 |
| cuda | 4 | 4 | 2 | 2 |
| all | 6 | 4 | 2 | 2 |

## Causes: 2

1. added to `tl.load(...)`: `eviction_policy='evict_first'` (4 texts: 4 kernels, 2 cases, on cuda_sm80 and cuda_sm90)
2. kernels  split (2 texts: 1 case, on cuda_sm80 and cuda_sm90)

## Details

### 1. added to `tl.load(...)`: `eviction_policy='evict_first'`

4 texts: 4 kernels, 2 cases, on cuda_sm80 and cuda_sm90. For example scale/a-cuda_sm80, inference triton_poi_mul_0:

```diff
     xmask = xindex < xnumel
     x0 = xindex
-    tmp0 = tl.load(in_ptr0 + (x0), xmask)
+    tmp0 = tl.load(in_ptr0 + (x0), xmask, eviction_policy='evict_first')
     tmp1 = tl.full([1], 2.0, tl.float32)
     tmp2 = tmp0 * tmp1
```

### 2. kernels  split

2 texts: 1 case, on cuda_sm80 and cuda_sm90. For example scale/b-cuda_sm80:

```diff
-1: mul
+2: mul
```
""",
    )


def test_diff_of_a_device(project, capsys):
    assert main(["compare", "2.13.0", "2.15", "ops", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "2 texts of 2 cases are stored for both versions; 0 texts of 0 cases differ." in out
    assert "## Causes: no change" in out
    assert main(["compare", "2.13", "2.16", "ops"]) == 2
    assert "nothing is stored for torch 2.16; stored are 2.13, 2.15" in capsys.readouterr().err


def test_a_run_says_what_is_not_confirmed():
    def items(*confirmed):
        return [ItemRecord("a/b", "cuda_sm90", "deviceless", "2.13", "", confirmed=each) for each in confirmed]

    (line,) = unconfirmed_lines(items(True, False, False, None))
    assert line == (
        "no real GPU has confirmed 2 of the 3 compared GPU texts; "
        "on such a GPU, run EXPECTTEST_ACCEPT=new pytest --verify-deviceless"
    )
    assert not unconfirmed_lines(items(True, None))


def test_assertions_written_together_are_compared_one_by_one():
    grouped = "    assert_size_stride_grouped((arg0, arg1), ((20, ), (2, 3)), ((1, ), (3, 1)), 'input')\n    x = 1\n"
    assert split_grouped_assertions(grouped) == (
        "    assert_size_stride(arg0, (20, ), (1, ), 'input')\n    assert_size_stride(arg1, (2, 3), (3, 1), 'input')\n"
        "    x = 1\n"
    )
    with_dtype = "assert_tensor_metadata(buf1, (2, ), (s0, ), torch.int64, 'op')\n"
    assert split_grouped_assertions(with_dtype) == "assert_size_stride(buf1, (2, ), (s0, ), 'op')\n"
    for other in ("assert_size_stride_grouped(*x)\n", "assert_size_stride_grouped((a, b), ((1,),), ((1,),))\n"):
        assert split_grouped_assertions(other) == other
