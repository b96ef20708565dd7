"""Further tables of targets: their rows are added to ours, and wrong ones are refused with what would be right."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conformance.compiler.gpu_free_worker import GpuFreeWorker
from conformance.devices import targets as table
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError, matching_target, targets, use_tables

ROW = """
[{name}]
device = "cuda"
description = "a GPU of ours"
confirmed = "unconfirmed"
{more}capability = [9, 0]
[{name}.properties]
name = "ours"
multi_processor_count = 7
warp_size = 32
"""


@pytest.fixture
def use(tmp_path):
    """Writes a table and adds it; afterwards, the process has its own table alone."""

    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    yield lambda *texts: use_tables([write(text, f"{number}.toml") for number, text in enumerate(texts)])
    use_tables([])


def row(name="cuda_mine", more=""):
    return ROW.format(name=name, more=more)


def test_rows_are_added_behind_ours(tmp_path, use):
    ours = list(targets())
    use(row(), row("cuda_other", 'variant_of = "cuda_sm90"\n'))
    assert list(targets()) == [*ours, "cuda_mine", "cuda_other"]
    assert [targets()[name].table for name in ("cuda_sm90", "cuda_mine")] == ["", str(tmp_path / "0.toml")]
    assert targets()["cuda_other"].variant_of == "cuda_sm90"
    assert matching_target("cuda", (9, 0), {"multi_processor_count": 7}).name == "cuda_mine"
    assert "cuda_mine" in Machine().targets()
    assert table.Target.from_json(json.loads(json.dumps(targets()["cuda_mine"].to_json()))) == targets()["cuda_mine"]
    use_tables([])
    assert list(targets()) == ours


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row("cuda_sm90"), "0.toml: cuda_sm90 is a target of this package already: give your target another name"),
        (row("cuda-mine"), "0.toml: 'cuda-mine' cannot name a target; use letters, digits, _ and ."),
        (row(more='code_like = "cuda_none"\n'), "code_like is 'cuda_none'; known are cpu_avx2"),
        (row(more='variant_of = "cuda_none"\n'), "variant_of is 'cuda_none'; it must name a cuda row"),
        (row(more='table = "x"\n'), "0.toml: target cuda_mine: unknown key 'table'"),
        ("[cuda_mine]\ndevice = 1\n", "0.toml: target cuda_mine: device is 1; it must be a string"),
        ("cuda_mine = 1\n", "0.toml: 'cuda_mine' is no row; a row begins with a line such as [cuda_mine]"),
        ("[cuda", "0.toml is not valid TOML"),
    ],
)
def test_wrong_tables_are_refused_and_change_nothing(use, text, message):
    ours = list(targets())
    with pytest.raises(TargetError) as caught:
        use(text)
    assert message in str(caught.value)
    assert list(targets()) == ours


def test_two_tables_cannot_have_one_name(use):
    with pytest.raises(TargetError, match=r"1.toml: cuda_mine is a target of .*0.toml already"):
        use(row(), row())


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(TargetError, match=r"none\.toml cannot be read: No such file"):
        use_tables([str(tmp_path / "none.toml")])


def test_the_gpu_free_worker_gets_the_tables(use):
    """It is a process of its own, so its environment names the files."""
    use(row())
    worker = GpuFreeWorker(tables=table.further_tables())
    code = "from conformance.compiler import gpu_free_worker as w; w.use_passed_tables(); "
    code += "from conformance.devices.targets import targets; print(*targets())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=worker.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "cuda_mine"


def test_a_variant_needs_only_what_differs(use):
    use('[cuda_mine]\nvariant_of = "cuda_sm90"\n[cuda_mine.properties]\nmulti_processor_count = 77\n')
    mine, base = targets()["cuda_mine"], targets()["cuda_sm90"]
    assert mine.properties == {**base.properties, "multi_processor_count": 77}
    assert (mine.device, mine.capability, mine.cudnn) == (base.device, base.capability, base.cudnn)
    assert (mine.description, mine.confirmed) == ("a variant of cuda_sm90", table.UNCONFIRMED)
    assert (mine.variant_of, mine.stores_code) == ("cuda_sm90", True)


def test_a_variant_of_another_row_of_the_same_table(use):
    base = row(more='assumed = ["warp_size", "name"]\n')
    use(base + '[cuda_other]\nvariant_of = "cuda_mine"\ncudnn = 91900\n[cuda_other.properties]\nname = "other"\n')
    other = targets()["cuda_other"]
    assert other.properties == {"name": "other", "multi_processor_count": 7, "warp_size": 32}
    assert (other.assumed, other.cudnn) == (("warp_size",), 91900)


def test_a_cpu_variant(use):
    use('[cpu_mine]\nvariant_of = "cpu_avx512"\nthreads = 3\n')
    mine = targets()["cpu_mine"]
    assert (mine.device, mine.isa, mine.threads) == ("cpu", "avx512", 3)


@pytest.mark.parametrize("wrong", ['variant_of = "cuda_sm91"', "variant_of = 3", 'variant_of = "cuda_mine"'])
def test_a_variant_of_no_row_is_refused(use, wrong):
    with pytest.raises(TargetError, match="cuda_mine"):
        use(f"[cuda_mine]\n{wrong}\n")
