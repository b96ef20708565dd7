"""What torch asks a pretended device during a capture.

Two targets of one device type differ only in what their device answers. So if another target gives the same answer to
each question of a capture, its capture is the same. Two things do not count as questions:

- Inductor writes the device's `DeviceProperties` into each Triton kernel. Creating and writing them asks nothing;
  reading a field asks for it.
- Dynamo and Inductor find out whether the device has TMA for each value and each load, before they look whether it
  matters. It matters only for values of Triton and with the option `triton.use_tensor_descriptor`.

Private parts of torch: torch._inductor.runtime.hints.DeviceProperties.
"""

from __future__ import annotations

import contextlib
import functools
import types
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from conformance.capture.deviceless import rocm_build
from conformance.capture.deviceless.asked_numbers import AskedNumber, Comparison
from conformance.capture.patching.patch import Patch, applied
from conformance.devices.environment import torch_build
from conformance.devices.targets import Target, amd_architecture, multiprocessor_count, targets

#: Properties of xpu → the first torch that answers them. The others are answered from 2.11 on.
_SINCE = {
    "memory_clock_rate": (2, 13),
    "memory_bus_width": (2, 13),
    "last_level_cache_size": (2, 13),
    "is_integrated_gpu": (2, 13),
}
#: The answer where the device lacks the property.
_NO_PROPERTY = "no such property"
_HINTS = "torch._inductor.runtime.hints"
_INTERFACE = "torch._dynamo.device_interface:get_interface_for_device"


class DeviceQueries:
    """The questions of one capture. `answers`: question → answer of `target`. A question is a text or a Comparison."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.answers: dict[Any, Any] = {}
        self._silent = False
        self._wraps = False  # Dynamo wraps a value that is not of Triton

    def ask(self, question: str) -> Any:
        """The target's answer. `question`: a key of _ANSWERS, "property NAME" or "field NAME"."""
        answer = _answer(self.target, question)
        self._note(question, answer)
        return answer

    def ask_number(self, question: str) -> Any:
        """The same, but an integer becomes an AskedNumber if the targets of the family differ in it."""
        answer = _answer(self.target, question)
        if self._silent or type(answer) is not int or not _differs(self.target.family, question):
            return self.ask(question)
        return AskedNumber(question, answer, self._note)

    def _note(self, question: Any, answer: Any) -> None:
        if not self._silent:
            self.answers[question] = answer

    def properties(self, ask: Callable[[str], Any] | None = None) -> Any:
        """An object like the result of torch.cuda.get_device_properties(). Its attributes are questions."""
        return _Properties(ask or self.ask)

    def have_the_same_answers(self, target: Target) -> bool:
        """Whether another target of the same device type and platform gives the same answers."""
        return all(_answer(target, question) == answer for question, answer in self.answers.items())

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """What is asked inside counts as not asked."""
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def patches(self) -> list[Patch]:
        """Patches of what asks, but not to decide."""
        triton = "torch.utils._triton"
        return [
            Patch(f"{_HINTS}:DeviceProperties.create", self._create, "it reads all fields to write them into kernels"),
            Patch(
                f"{_HINTS}:DeviceProperties",
                lambda original: _asking_class(original, self.ask_number),
                "emulated kernels make them, and read fields",
            ),
            Patch("torch._dynamo.variables.builder:VariableBuilder._wrap", self._wrap, "it asks for each value"),
            Patch(
                "torch._inductor.codegen.triton:TMACompatibilityChecker.can_use_tma",
                self._can_use_tma,
                "it asks for each load",
            ),
            *(
                Patch(f"{triton}:{name}", self._tma, "Dynamo asks it for each value", optional=True)
                for name in ("has_triton_experimental_host_tma", "has_triton_tensor_descriptor_host_tma")
            ),
        ]

    def _create(self, original: Callable[..., Any]) -> Any:
        @functools.cache
        def create(device: Any) -> Any:
            with self.silent():
                created = original(device)
            if device.type != self.target.device:
                return created
            return _asking_class(type(created), self.ask_number)(*created)

        return staticmethod(create)

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _wrap(builder: Any, value: Any) -> Any:
            before, self._wraps = self._wraps, not _is_of_triton(value)
            try:
                return original(builder, value)
            finally:
                self._wraps = before

        return _wrap

    def _tma(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def has_triton_tma() -> bool:
            if not self._wraps:
                self.ask("capability")  # here, because torch caches the function's result
            with self.silent():
                return original()

        return has_triton_tma

    def _can_use_tma(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def can_use_tma(checker: Any) -> Any:
            from torch._inductor import config

            if checker.force or config.triton.use_tensor_descriptor:
                return original(checker)
            with self.silent():
                return original(checker)

        return can_use_tma


def _is_of_triton(value: Any) -> bool:
    return any(str(getattr(each, "__module__", "")).startswith("triton") for each in (value, type(value)))


def _asking_class(original: Any, ask: Callable[[str], Any]) -> Any:
    """A subclass of DeviceProperties: reading its fields asks. Its repr() is the original's, and asks nothing."""
    fields = frozenset(original._fields)

    class DeviceProperties(original):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            return ask(f"field {name}") if name in fields else super().__getattribute__(name)

        def __getitem__(self, index: Any) -> Any:
            return tuple(self)[index]

        def __iter__(self) -> Iterator[Any]:
            for name in original._fields:
                ask(f"field {name}")
            return super().__iter__()

        def __eq__(self, other: object) -> bool:
            return tuple(self) == other

        def __hash__(self) -> int:
            return hash(tuple(self))

    return DeviceProperties


class _Properties:
    """The properties of a device. Each attribute that is read is a question, and so is dir()."""

    def __init__(self, ask: Callable[[str], Any]) -> None:
        self._ask = ask

    def __dir__(self) -> list[str]:
        return list(self._ask("names of properties"))

    def __getattr__(self, name: str) -> Any:
        answer = self._ask(f"property {name}")
        if answer is _NO_PROPERTY:
            raise AttributeError(name)
        return answer


def _compute_capability(target: Target) -> Any:
    """The result of get_compute_capability() in Inductor: 90 for (9, 0) on cuda, "gfx942" on rocm, a dict of properties
    on xpu.

    Like torch.xpu.get_device_capability(), the dict leaves out the uuid.
    """
    major, minor = target.capability
    if target.device == "xpu":
        return {name: target.properties[name] for name in _names(target)}
    if target.platform == "rocm":
        return amd_architecture(target.properties)
    return major * 10 + minor


def _names(target: Target) -> list[str]:
    """The names of the properties that the installed torch answers, sorted like dir() sorts them."""
    release = torch_build().release
    return sorted(name for name in target.properties if target.device != "xpu" or release >= _SINCE.get(name, (0, 0)))


def _has_bf16(target: Target) -> bool:
    return target.device == "xpu" or target.capability >= (8, 0)


def _shared_memory(target: Target) -> Any:
    """Bytes for a block. rocm has one limit, cuda also one for kernels that ask for more."""
    names = ("shared_memory_per_block_optin", "shared_memory_per_block", "local_mem_size")
    return next((target.properties[name] for name in names if name in target.properties), None)


#: Question → how a target answers.
_ANSWERS: Mapping[str, Callable[[Target], Any]] = {
    "capability": lambda target: target.capability,
    "names of properties": _names,
    "compute capability": _compute_capability,
    "multiprocessors": lambda target: multiprocessor_count(target.properties),
    "bf16": _has_bf16,
    "instruction set": lambda target: target.isa,  # of a product from a C++ template
    "memory": lambda target: target.properties["total_memory"],
    "integrated": lambda target: target.properties.get("is_integrated_gpu", False),
    "shared memory": _shared_memory,
    "warp size": lambda target: target.properties.get("warp_size", 32),
    "clock rate": lambda target: target.properties.get("clock_rate", 0),
    "memory clock rate": lambda target: target.properties.get("memory_clock_rate", 0),
    "memory bus width": lambda target: target.properties.get("memory_bus_width", 0),
    # PyTorch chooses attention, convolution and others in C++, by any of these.
    "choices of C++": lambda target: (target.capability, target.cudnn, target.flash_attention),
}


def _answer(target: Target, question: Any) -> Any:
    if isinstance(question, Comparison):
        return question.answer(_answer(target, question.question))
    kind, _, name = question.partition(" ")
    if kind == "property":
        return _property(target, name)
    if kind == "field":
        return getattr(kernel_properties(target), name)
    return _ANSWERS[question](target)


@functools.cache
def _differs(family: str, question: str) -> bool:
    """Whether the targets of a device type or platform have different answers."""
    rows = [target for target in targets().values() if target.family == family]
    return any(_answer(target, question) != _answer(rows[0], question) for target in rows)


def _property(target: Target, name: str) -> Any:
    if target.device == "cuda" and name in ("major", "minor", "gcnArchName"):
        major, minor = target.capability
        return {"major": major, "minor": minor, "gcnArchName": target.properties.get(name, "")}[name]
    if target.device == "xpu" and name == "uuid":
        return uuid.UUID(int=0)  # it names one card, not a product
    return target.properties[name] if name in _names(target) else _NO_PROPERTY


@functools.cache
def _torch_class() -> tuple[Any, Callable[..., Any]]:
    """`DeviceProperties`, and its function `create` without the cache, which has one entry for all targets.

    The first call must be outside of captures, because their patches replace both.
    """
    from torch._inductor.runtime.hints import DeviceProperties

    return DeviceProperties, DeviceProperties.create.__wrapped__


@functools.cache
def kernel_properties(target: Target) -> Any:
    """The `DeviceProperties` that Inductor writes into the target's kernels."""
    import torch

    interface = types.SimpleNamespace(
        get_device_properties=lambda device: _Properties(functools.partial(_answer, target)),
        get_compute_capability=lambda device: _compute_capability(target),
        get_multi_processor_count=lambda device: multiprocessor_count(target.properties),  # from torch 2.15
    )
    replaced = Patch(_INTERFACE, lambda _: lambda device: interface, "create() reads the device through it")
    kind, create = _torch_class()
    with applied([replaced]), rocm_build.answering() if target.platform == "rocm" else contextlib.nullcontext():
        return create(kind, torch.device(target.device, 0))
