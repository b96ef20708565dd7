"""CPU kernels in a GPU's graph: their instruction set is fixed, and no process probes what the CPU has."""

from torch._inductor import cpu_vec_isa

from conformance.capture.toolchain import cpu_isa
from conformance.cases.loader import cases_in
from conformance.cases.roots import OPS
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets


def test_a_gpu_graph_with_cpu_kernels_probes_nothing(monkeypatch):
    def probe(*_args):
        raise AssertionError("Inductor probes the CPU")

    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", probe)
    case = cases_in(OPS / "test_control_flow.py")["control_flow/map-forward-numbered"]
    with capture(CaseRequest(case, targets()["cuda_sm90"])) as result:
        assert "cpp_fused_" in result.capture.modules[0].code


def test_the_instruction_set_is_one_that_all_machines_have(monkeypatch):
    for has, expected in {("avx2", "avx512"): "avx2", ("neon",): "neon", (): ""}.items():
        monkeypatch.setattr(cpu_isa, "instruction_sets", lambda has=has: has)
        assert cpu_isa.isa_beside_gpu.__wrapped__() == expected
