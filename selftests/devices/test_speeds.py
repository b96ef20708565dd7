"""The table of speeds: each target has a row, figures are plausible, and mistakes are named."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.devices.speeds import SpeedsError, speeds, speeds_of
from conformance.devices.targets import GPUS, targets


def test_each_target_has_speeds_and_each_row_a_target():
    assert set(speeds()) == set(targets())


@pytest.mark.parametrize("name", list(targets()))
def test_a_row_is_plausible(name):
    for row in speeds()[name]:
        assert row.product
        assert row.source
        assert 10e9 < row.bandwidth < 20e12
        assert 0.5e-6 < row.start < 20e-6
        assert 0.1e12 < row.rates["f32"] < 500e12
        assert row.rate("matrix bf16") >= row.rate("f32") or name == "cuda_sm75"
        assert row.rate("matrix i8") >= row.rate("matrix bf16")


@pytest.mark.parametrize("name", [name for name, target in targets().items() if target.family == "cuda"])
def test_bandwidth_agrees_with_the_table_of_targets(name):
    properties = targets()[name].properties
    from_clock = properties["memory_clock_rate"] * 1e3 * 2 * properties["memory_bus_width"] / 8
    assert speeds()[name][0].bandwidth == pytest.approx(from_clock, rel=0.05)


def test_products_of_one_target():
    sm90 = targets()["cuda_sm90"]
    assert speeds_of(sm90).product == "H200 SXM"
    assert speeds_of(sm90, "h100").bandwidth == 3350e9
    with pytest.raises(SpeedsError, match=r"cuda_sm90 has no product 'A100': it has 'H200 SXM', 'H100 SXM'"):
        speeds_of(sm90, "A100")


def test_a_target_without_a_row():
    other = dataclasses.replace(targets()["cuda_sm90"], name="cuda_mine")
    with pytest.raises(SpeedsError, match=r"no speeds of cuda_mine are known, .*: known are cpu_avx2, "):
        speeds_of(other)


def test_rates_that_no_document_has():
    cpu, gpu = speeds_of(targets()["cpu_avx512"]), speeds_of(targets()["cuda_sm90"])
    assert cpu.rate("matrix bf16") == cpu.rate("f32")
    assert cpu.rate("matrix f64") == cpu.rate("f64") < cpu.rate("f32")
    assert cpu.rate("matrix i8") == cpu.rate("integer")
    assert gpu.rate("matrix bf16") > gpu.rate("matrix tf32") > gpu.rate("matrix f32") == gpu.rate("f32")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("speed = 3", "unknown key 'speed'; known are product, "),
        ("f64 = -1", "f64 is -1; it must be a positive number"),
        ("f64 = '1'", "f64 is '1'; it must be a positive number"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, line, message):
    row = "[[cuda_one]]\nproduct = 'a'\nsource = 'b'\nassumed = 'c'\nbandwidth = 1\nstart = 1\nf32 = 1\ninteger = 1\n"
    file = tmp_path / "speeds.toml"
    file.write_text(row)
    assert speeds(file)["cuda_one"][0].bandwidth == 1e9
    (tmp_path / "wrong.toml").write_text(row + line)
    with pytest.raises(SpeedsError, match=f"speeds of cuda_one: {message}"):
        speeds(tmp_path / "wrong.toml")


def test_a_row_without_a_figure_is_named(tmp_path):
    (tmp_path / "wrong.toml").write_text("[[cuda_one]]\nproduct = 'a'\nsource = 'b'\nassumed = 'c'\n")
    with pytest.raises(SpeedsError, match="speeds of cuda_one: bandwidth is missing"):
        speeds(tmp_path / "wrong.toml")


def test_gpus_have_tensor_cores_for_half_precision():
    for name, target in targets().items():
        if target.device in GPUS:
            assert "matrix f16" in speeds()[name][0].rates
