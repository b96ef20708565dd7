"""`generate`: the code of torch.compile for any device, on any machine, without a test suite around it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conformance.capture.call_modes import MODES
from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.prepare import in_use, prepare
from conformance.capture.model import Capture
from conformance.capture.program import Arguments, Program
from conformance.capture.request import CaptureRequest
from conformance.containers import copy_to, is_module
from conformance.devices import environment, targets
from conformance.devices.cpp_compiler import compiler_problem
from conformance.devices.cross_compiler import emulation_problem
from conformance.devices.environment import PreparationError
from conformance.devices.machine import Machine
from conformance.devices.targets import Target, TargetError
from conformance.generated import capture_texts
from conformance.words import did_you_mean

if TYPE_CHECKING:
    from conformance.capture.offline.compiler import Launch
    from conformance.facts import Facts


@dataclass(frozen=True)
class Generated:
    """What torch.compile generated for a function on a device. Printed: its facts and its code.

    `target`: the device's row in targets.toml. `capture`: all that was recorded, as plain data.
    """

    target: Target
    capture: Capture
    _request: CaptureRequest
    _arguments: Arguments
    _module: Any = None

    @property
    def origin(self) -> str:
        """How the code was made: "generated without the device; torch 2.13.0, Triton 3.7.1"."""
        return capture_texts.origin(self.capture, self.target)

    @functools.cached_property
    def facts(self) -> Facts:
        """Kernels, fallbacks, bytes, …: `facts.value("kernels")`, `facts.text("fallbacks")`, `facts.lines()`."""
        from conformance.facts import extract

        return extract(self.capture)

    @functools.cached_property
    def kernels(self) -> dict[str, str]:
        """The name of each kernel → its normalised text."""
        from conformance.normalize.wrapper_modules import kernel_texts

        return {
            name: text
            for module in self.capture.modules
            for name, text in kernel_texts(module.code, self.target.device)
        }

    @functools.cached_property
    def code(self) -> str:
        """The normalised kernels and the calls around them: equal in each run."""
        return capture_texts.code_text(self.capture, self.target)

    @property
    def raw(self) -> str:
        """The modules as Inductor wrote them."""
        return "\n".join(module.code for module in self.capture.modules)

    @functools.cached_property
    def graph(self) -> str:
        """The joint graph of a program with gradients, else the forward graphs."""
        return capture_texts.graph_text(self.capture, self.target)

    @property
    def ir(self) -> str:
        """The nodes of Inductor's scheduler after fusion."""
        return "\n".join(module.ir_post_fusion for module in self.capture.modules)

    def stage(self, name: str) -> dict[str, str]:
        """The text of one stage of Triton's compiler for each kernel and launch, such as "ttgir", "ptx" or "sass".

        Raises StageError for a stage that the device lacks, and KernelError for a kernel that does not compile.
        """
        from conformance.capture.offline import compiler

        compiler.refuse_unknown_stage(name, self.target.family)
        return {
            f"{kernel.name}, {launch}": text
            for kernel in compiler.kernels(self.capture)
            for launch, text in compiler.stage_texts(kernel, name)
        }

    def launches(self) -> dict[str, Sequence[Launch]]:
        """Kernel → registers, spills, shared memory and so on of each launch. Raises KernelError."""
        from conformance.capture.offline import compiler

        return {kernel.name: compiler.launches(kernel) for kernel in compiler.kernels(self.capture)}

    @contextlib.contextmanager
    def compiled(self) -> Iterator[Callable[..., Any]]:
        """The compiled function or module, to be called inside the context. It takes tensors on the target's device.

        It runs natively, or emulated on the CPU where this machine lacks the device. It is compiled again for this.
        Raises PreparationError where the code can neither run nor be emulated.
        """
        native = Machine.detect().is_native(self.target)
        device = self.target.device
        problem = (compiler_problem() if native else emulation_problem(self.target.isa)) if device == "cpu" else ""
        if problem:
            raise PreparationError(f"{self.target.name}: {problem}")
        request = replace(self._request, mode="native" if native else "deviceless", emulate=not native, texts=False)
        with in_use(), _captured(request) as result:
            if result.compiled is None:
                raise PreparationError(f"{self.target.name}: this code does not run here")
            module = () if self._module is None else (copy_to(self._module, self.target.device),)
            yield functools.partial(result.compiled, *module)

    def run(self, *arguments: Any, **named: Any) -> Any:
        """The result of one call, natively or emulated, copied to the CPU. Raises what `compiled` and the call raise.

        Without arguments, the call has those of `generate`.
        """
        given = (arguments, named) if arguments or named else self._arguments
        with self.compiled() as function:
            positional, by_name = copy_to(given, self.target.device)
            return copy_to(function(*positional, **by_name), "cpu")

    def __str__(self) -> str:
        return f"{self.origin}\n\n{capture_texts.facts_text(self.capture)}\n\n{self.code}"


def generate(
    function: Callable[..., Any],
    *arguments: Any,
    device: str,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = False,
    mode: str = "plain",
    **named: Any,
) -> Generated:
    """Returns the code that torch.compile generates for a function and its arguments on a device.

        import torch
        from conformance import generate

        found = generate(torch.softmax, torch.rand(64, 1000), dim=-1, device="cuda_sm90")
        print(found.facts.value("kernels"), found.code)

    `function`: a function or a module. `arguments`, `named`: those of one call, on any device; they are copied, as the
    module is. Where one requires a gradient, the backward is generated too. `device`: a target, such as "cuda_sm90",
    "xpu_pvc" or "cpu_avx512"; this machine need not have it. `options`: of Inductor, and of Dynamo as
    "dynamo.capture_scalar_outputs". `dynamic`: as in torch.compile. `mode`: "plain", "no_grad", "inference" or
    "autocast".

    Raises TargetError for an unknown device; PreparationError where no code can be generated for it here, for example
    without Triton; OptionError for a wrong option; and what compiling raises.
    """
    import torch  # noqa: F401 - a device is pretended in a torch that is there; without torch, this is the message

    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
    machine = Machine.detect()
    known = machine.targets()
    if device not in known:
        raise TargetError(f"unknown device {device!r}{did_you_mean(device, known)}; known are {', '.join(known)}")
    target = known[device]
    native = machine.is_native(target) and target.device != "cpu"
    if problem := _problem(machine, target):
        raise PreparationError(f"{device}: {problem}")
    module = function if is_module(function) else None  # an argument is copied to the device, with its parameters
    called: Callable[..., Any] = function if module is None else _called
    program = Program(
        getattr(function, "__name__", type(function).__name__),
        called,
        lambda: (arguments if module is None else (module, *arguments), named),
        dynamic=dynamic,
        config=dict(options or {}),
        mode=mode,
    )
    request = CaptureRequest(program, target, "native" if native else "deviceless")
    with in_use(), _captured(request) as result:
        return Generated(target, result.capture.complete(), request, (arguments, named), module)


def _called(module: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return module(*arguments, **named)


@contextlib.contextmanager
def _captured(request: CaptureRequest) -> Iterator[Any]:
    from conformance.capture.compile import capture

    with capture(request) as result:
        yield result


def _problem(machine: Machine, target: Target) -> str:
    """Why no code can be generated for the target in this process; "" where it can."""
    if problem := environment.variable_problem():
        return problem
    prepared = prepare(targets.GPUS if machine.gpus else ())
    if target.device == "cpu" or machine.is_native(target):
        return ""
    if machine.gpus:
        return (
            f"this process uses a GPU of this machine, and pretends no other: hide it, with CUDA_VISIBLE_DEVICES= or "
            f"ZE_AFFINITY_MASK=, to generate code for {target.name}"
        )
    if not environment.triton_version():
        return environment.missing_triton_message()
    if not prepared.problem:
        pretended_device.register_operators(prepared.pretended_devices)
    return prepared.problem
