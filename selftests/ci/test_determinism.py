"""Generated texts depend on nothing but the case, the target and the versions: a few kinds of cases, varied at once.

Where the text is the stored one, no plain run is needed: the suite compares its texts with the stored ones.

Cases of each operator: python ci/determinism.py --quick --only together --stored. All items and all variations: python
ci/determinism.py.
"""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "ci"))
import determinism

#: Pointwise, a reduction, a scan, products of matrices and what follows them, indices, random numbers, attention.
CASES = ("flip", "softmax", "scan", "mm", "scatter", "random", "sdpa")


@pytest.mark.long("it generates code in several processes whose environments differ")
def test_texts_are_equal_with_all_varied_at_once(capsys):
    files = [f"conformance/ops/test_{name}.py" for name in CASES]
    status = determinism.main(["--quick", "--only", "together", "--stored", *files])
    printed = capsys.readouterr()
    assert status == 0, printed.out + printed.err
    assert re.search(r"\| [1-9]\d+ \| 0 \|", printed.out), printed.out


def test_unknown_variation(capsys):
    with pytest.raises(SystemExit) as ended:
        determinism.main(["--only", "weather"])
    assert ended.value.code == 2
    assert "unknown variation 'weather'; known are again" in capsys.readouterr().err
