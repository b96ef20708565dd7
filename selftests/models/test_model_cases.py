"""The cases of models: what each of them declares."""

from __future__ import annotations

import ast

import pytest

from conformance.cases.lookup import cases_below
from conformance.cases.needed_package import MODEL_PACKAGES
from conformance.cases.roots import MODELS
from conformance.devices.targets import targets
from conformance.expectations.requirements import wanted_facts
from conformance.models.declarations import with_fused_attention

FILES = sorted(MODELS.glob("test_*.py"))


def imported_packages(text: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(text)))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cases_name_the_package_that_they_import(file):
    packages = imported_packages(file.read_text(encoding="utf-8")) & set(MODEL_PACKAGES)
    assert {case.needs for case in cases_below([file]) if case.needs} == packages


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_case_refuses_graph_breaks(file):
    target = targets()["cuda_sm90"]
    assert [case.id for case in cases_below([file]) if wanted_facts(case, target).get("graph_breaks") != 0] == []


def test_fused_attention_is_required_beside_other_facts():
    required = with_fused_attention({"all": {"graph_breaks": 0}, "cpu": {"vectorised": "yes"}}, calls=2)
    fused = "fallbacks.aten._scaled_dot_product_flash_attention_for_cpu"
    assert required["cpu"] == {"vectorised": "yes", fused: 2}
    assert required["all"] == {"graph_breaks": 0}
    assert required["cuda_sm90 bf16"] == {"fallbacks.aten._scaled_dot_product_cudnn_attention": 2}
    assert with_fused_attention({}, head=12)["cuda_sm90 bf16"] == {
        "fallbacks.aten._scaled_dot_product_flash_attention": 1
    }


def test_with_a_mask_no_flash_attention_is_required_on_cuda():
    required = with_fused_attention({}, masked=True)
    assert not [facts for selector, facts in required.items() if "cuda" in selector and "flash" in str(facts)]
