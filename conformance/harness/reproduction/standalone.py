"""What a reproduction does with its calls: it compares compiled with eager and float64. A part of each `reproduce.py`.

Everything below the imports is copied into the script. So it imports only torch.
"""

import contextlib
import sys
from pathlib import Path

import torch


# What follows makes the calls and compares them.
def on_device(tensors, device):
    """Copies with the same strides, storage offsets, requires_grad and shared storages."""
    storages, copies = {}, {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        key = (storage.data_ptr() or name, tensor.dtype)
        if key not in storages:
            whole = tensor.detach().as_strided((storage.nbytes() // tensor.element_size(),), (1,), 0)
            storages[key] = whole.to(device, copy=True)
        copy = torch.empty(0, dtype=tensor.dtype, device=device)
        copy.set_(storages[key].untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
        copies[name] = copy.requires_grad_(tensor.requires_grad)
    return copies


def leaves(value, path="output"):
    """The leaves of nested tuples, lists and dicts: (path, leaf)."""
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    else:
        yield path, value


def structure(value):
    """The types of containers and leaves."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(structure, value))})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{key}={structure(item)}' for key, item in value.items())})"
    return type(value).__name__


def outside(tensor):
    """The bytes of the tensor's storage, with its elements set to 0."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage()).clone()
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    whole.as_strided(sizes, tensor.stride(), tensor.storage_offset()).zero_()
    return whole.view(torch.uint8).cpu()


def shared_storages(tensors):
    """Pairs of names of tensors that share storage."""
    pairs: set[tuple[str, str]] = set()
    first: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        pointer = isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr()
        if pointer:
            pairs.update((other, name) for other in first.setdefault(pointer, []))
            first[pointer].append(name)
    return pairs


def outcome(fn, call, device, constants, context):
    """Calls the function and its backward. `call`: see inputs.pt. Returns what they did, by kind of result."""
    inputs = on_device(call["inputs"], device)
    before = {name: outside(tensor.detach()) for name, tensor in inputs.items()}
    found = {"raised": None, "outputs": {}, "inputs": inputs, "gradients": {}}
    try:
        with context():
            value = fn(**inputs, **constants)
        found["structure"], found["outputs"] = structure(value), dict(leaves(value))
        changed = {name for name, bytes_ in before.items() if not torch.equal(bytes_, outside(inputs[name].detach()))}
        found["written outside"] = changed
        found["shared"] = shared_storages({**found["outputs"], **inputs})
        pairs = [(found["outputs"].get(name), cotangent) for name, cotangent in call["cotangents"].items()]
        pairs = [(tensor, cotangent) for tensor, cotangent in pairs if takes(tensor, cotangent)]
        gradients = found["gradients"]
        learned = {name: tensor for name, tensor in inputs.items() if tensor.is_leaf and tensor.requires_grad}
        for name, tensor in learned.items():  # a hook, because `tensor.grad` has the strides of the input
            tensor.register_hook(lambda gradient, name=name: gradients.__setitem__(name, gradient))
        if pairs:
            cotangents = on_device({str(i): cotangent for i, (_, cotangent) in enumerate(pairs)}, device)
            torch.autograd.backward([tensor for tensor, _ in pairs], list(cotangents.values()))
        found["gradients"] = {name: gradients.get(name, tensor.grad) for name, tensor in learned.items()}
    except Exception as error:  # noqa: BLE001 - compiled must raise what eager raises
        found["raised"] = error
    return found


def takes(tensor, cotangent):
    """Whether autograd takes the cotangent for this output."""
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.shape == cotangent.shape


def differences(got, eager, call):
    """What differs in one call: (name of the tensor, what differs, text)."""
    if got["raised"] or eager["raised"]:
        one, other = got["raised"], eager["raised"]
        if one is None or type(other).__name__ not in [kind.__name__ for kind in type(one).__mro__]:
            said = [f"{type(each).__name__}: {each}" if each else "nothing" for each in (one, other)]
            yield "", "raises", f"compiled raised {said[0]}\n  eager raised {said[1]}"
        return
    if got["structure"] != eager["structure"]:
        yield "", "structure", f"the result is {got['structure']}, eager's is {eager['structure']}"
    for pair in sorted(got["shared"] ^ eager["shared"]):
        who = "only the compiled ones" if pair in got["shared"] else "only eager's"
        yield ", ".join(pair), "aliasing", f"{who} share storage"
    for name in sorted(got["written outside"] - eager["written outside"]):
        yield name, "outside write", "the call wrote to the input's storage outside of its elements"
    for kind, title in (("outputs", "{}"), ("inputs", "{} after the call"), ("gradients", "gradient of {}")):
        for name, one in eager[kind].items():
            yield from tensor_differences(title.format(name), kind, got[kind].get(name), one, call)


def tensor_differences(title, kind, got, eager, call):
    """What differs in one tensor, or in one result that is no tensor."""
    if not isinstance(eager, torch.Tensor) or not isinstance(got, torch.Tensor):
        same = repr(got) == repr(eager) if kind == "outputs" else got is eager
        if not same and not (isinstance(eager, torch.Tensor) or isinstance(got, torch.Tensor)):
            yield title, "constant", f"it is {got!r}, eager's is {eager!r}"
        elif not same:
            has, has_not = ("eager", "compiled") if isinstance(eager, torch.Tensor) else ("compiled", "eager")
            yield title, "gradient", f"{has} computes one, {has_not} none"
        return
    facts = {"device": "device", "dtype": "dtype", "shape": "shape", "requires_grad": "requires_grad"}
    for rule, attribute in facts.items():
        if getattr(got, attribute) != getattr(eager, attribute):
            yield title, rule, f"it is {getattr(got, attribute)}, eager's is {getattr(eager, attribute)}"
    if got.shape != eager.shape:
        return
    if any(size > 1 and a != b for size, a, b in zip(got.shape, got.stride(), eager.stride(), strict=True)):
        yield title, "strides", f"they are {got.stride()}, eager's are {eager.stride()}"
    if got.storage_offset() != eager.storage_offset():
        yield title, "storage offset", f"it is {got.storage_offset()}, eager's is {eager.storage_offset()}"
    if title in call["limits"] and got.dtype == eager.dtype:
        one, other = got.detach().cpu(), eager.detach().cpu()
        wrong, allowed = wrong_elements(one, other, call["limits"][title])
        if wrong.any():
            index = tuple(wrong.nonzero()[0].tolist())
            text = f"{int(wrong.sum())} of {wrong.numel()} elements are wrong; the first at {list(index)}: "
            text += f"compiled {one[index].item()!r}, eager {other[index].item()!r}, "
            expected = call["limits"][title]["expected"]
            text += f"float64 {expected[index].item()!r}, " if expected is not None else ""
            yield title, "values", f"{text}{allowed}"


def wrong_elements(got, eager, limit):
    """Where `got` is wrong (bool, in its shape), and the rule as text. `limit`: see inputs.pt.

    Integers must be eager's. A floating element is right if

        |compiled - float64| <= factor × eager's error at that magnitude + floor × ulp(float64)

    where eager's error is at least what 1 ulp of the inputs changes. Infinity and NaN must be where eager's are, or
    float64's. If eager equals float64 everywhere, compiled must too.
    """
    expected, sensitivity = limit["expected"], torch.as_tensor(limit["sensitivity"], dtype=torch.float64)
    if got.is_complex():
        got, eager = (torch.view_as_real(tensor.resolve_conj()) for tensor in (got, eager))
        expected = None if expected is None else torch.view_as_real(expected.resolve_conj())
        sensitivity = sensitivity.unsqueeze(-1) if sensitivity.dim() else sensitivity
        wrong, rule = wrong_elements(got, eager, {**limit, "expected": expected, "sensitivity": sensitivity})
        return wrong.any(-1), rule
    if not eager.dtype.is_floating_point:
        return got != eager, "they must be equal"
    info, dtype = torch.finfo(eager.dtype), eager.dtype
    got, eager = got.double(), eager.double()
    if limit["exact"]:
        other_zero = (got == 0) & (torch.signbit(got) != torch.signbit(eager))
        return ~same(got, eager) | (other_zero & (eager == 0)), "they must be equal bit for bit"
    expected = eager if expected is None else expected
    finite, rounded = eager.isfinite(), expected.to(dtype).double()
    near_max = got.isinf() & expected.isfinite() & (got.sign() == expected.sign())
    near_max &= expected.abs() > info.max * (1 - 8 * info.eps)
    as_float64 = ~got.isfinite() & (same(got, rounded) | rounded.isfinite())
    right = torch.where(finite, near_max, same(got, eager) | as_float64)
    misplaced = ~right & (~got.isfinite() | (~finite & ~expected.isfinite()))
    expected = torch.where(finite & ~expected.isfinite(), eager, expected)
    eager_error = torch.where(finite, (eager - expected).abs(), 0.0)
    magnitude = torch.where((right | misplaced) & ~finite, 0.0, expected.abs())
    if limit["may be exact"] and not eager_error.any() and shows_exactness(expected[finite]):
        allowed, rule = torch.zeros_like(magnitude), "eager is float64, rounded; compiled must be too: allowed error"
    else:
        at_magnitude = torch.maximum(error_at_magnitude(eager_error, magnitude), sensitivity)
        allowed = limit["factor"] * at_magnitude + limit["floor"] * ulp(magnitude, info, largest=limit["one ulp"])
        rule = f"allowed error: {limit['factor']:g} × eager's at that magnitude + {limit['floor']:g} ulp"
    wrong = misplaced | (~right & ~((got - expected).abs() <= allowed))
    return wrong, f"{rule} = {float(allowed[wrong][0]):.3g}" if wrong.any() else rule


def error_at_magnitude(error, magnitude):
    """For each element, the largest error of elements of no greater magnitude, and of at least 64 elements."""
    if not error.numel():
        return error
    order = magnitude.flatten().argsort()
    largest = error.flatten()[order].cummax(0).values
    largest[:64] = largest[:64].amax()
    return torch.empty_like(largest).scatter_(0, order, largest).view_as(error)


def ulp(magnitude, info, largest):
    """The distance between neighbouring numbers at each magnitude; `largest`: at the largest one."""
    magnitude = magnitude.amax() if largest and magnitude.numel() else magnitude
    _, exponent = torch.frexp(magnitude.clamp(min=info.smallest_normal))
    return info.eps * torch.pow(2.0, (exponent - 1).double())


def shows_exactness(values):
    """Whether a function that gives these values, rounded right, computes exactly."""
    return values.numel() >= 16 and (bool((values == values.round()).all()) or values.abs().unique().numel() >= 16)


def same(one, other):
    return (one == other) | (one.isnan() & other.isnan())


def reproduce(fn, constants, device, dynamic, mode):
    """Makes the calls of inputs.pt, eagerly and compiled. Exits with 1 if compiled differs as it did, else with 0."""
    contexts = {
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast(torch.device(device).type),
    }
    context = contexts.get(mode, contextlib.nullcontext)
    torch.backends.cudnn.allow_tf32 = False  # else eager's convolutions may round to 10 bits
    compiled = torch.compile(fn, dynamic=dynamic)
    found = False
    for call in torch.load(Path(__file__).with_name("inputs.pt")):
        one, other = (outcome(each, call, device, constants, context) for each in (compiled, fn))
        for name, rule, text in differences(one, other, call):
            if (name, rule) in call["failed"] or rule == "raises":
                found = True
                print(f"{call['title']}: {name}{': ' * bool(name)}{rule}: {text}")
    print("compiled differs from eager" if found else "compiled does what it should")
    sys.exit(found)
