"""Makes one call of a function and its backward, and records what they did. A part of each `reproduce.py`."""

import copy
import dataclasses

import torch


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


def items_of(value):
    """The items of a container with their paths; None for a leaf."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", item) for name, item in zip(value._fields, value, strict=True)]
    if isinstance(value, (tuple, list)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, torch.nn.Module):
        return [(f".{name}", tensor) for name, tensor in tensors_of(value).items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value) if hasattr(value, each.name)]
        return [(f".{name}", getattr(value, name)) for name in names]
    return None


def tensors_of(module):
    """Name → parameter, buffer or other tensor of a module."""
    found = dict(module.named_parameters()) | dict(module.named_buffers())
    seen = {id(tensor) for tensor in found.values()}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor) and id(value) not in seen:
                seen.add(id(value))
                found[f"{path}.{name}" if path else name] = value
    return found


def with_tensors(module, tensors, path):
    """A copy of a module with these parameters and buffers."""
    module = copy.deepcopy(module)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        given = tensors[f"{path}.{name}"]
        tensor.data = given.detach()
        tensor.requires_grad_(given.requires_grad)
    return module


def leaves(value, path="output", *, into_modules=True):
    """The leaves of nested containers: (path, leaf)."""
    items = items_of(value) if into_modules or not isinstance(value, torch.nn.Module) else None
    if items is None:
        yield path, value
    else:
        for name, item in items:
            yield from leaves(item, f"{path}{name}", into_modules=into_modules)


def structure(value):
    """The types of containers and leaves. Of a module: its type."""
    items = None if isinstance(value, torch.nn.Module) else items_of(value)
    if items is None:
        return type(value).__name__
    return f"{type(value).__name__}({', '.join(name + structure(item) for name, item in items)})"


def outside(tensor):
    """The bytes of the tensor's storage, with its elements set to 0."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage()).clone()
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    whole.as_strided(sizes, tensor.stride(), tensor.storage_offset()).zero_()
    return whole.view(torch.uint8).cpu()


def shared_storages(tensors):
    """Pairs of names of tensors that share storage."""
    pairs = set()
    first = {}
    for name, tensor in tensors.items():
        pointer = isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr()
        if pointer:
            pairs.update((other, name) for other in first.setdefault(pointer, []))
            first[pointer].append(name)
    return pairs


def outcome(fn, call, device, arguments, context):
    """Calls the function and its backward. `call`: one of inputs.pt. Returns what they did, by kind of result."""
    given = arguments(on_device(call["inputs"], device))
    passed = {name: leaf for name, leaf in argument_leaves(given).items() if isinstance(leaf, torch.Tensor)}
    movable = argument_leaves(given, into_modules=False)
    before = {name: outside(tensor.detach()) for name, tensor in passed.items()}
    found = {"raised": None, "outputs": {}, "inputs": passed, "gradients": {}}
    try:
        with context():
            value = fn(**given)
        found["structure"], found["outputs"] = structure(value), dict(leaves(value))
        found["arguments"] = {name: structure(each) for name, each in given.items()}
        changed = {name for name, bytes_ in before.items() if not torch.equal(bytes_, outside(passed[name].detach()))}
        found["written outside"] = changed
        inputs = argument_leaves(given)
        taken = {name: each for name, each in movable.items() if name in passed and inputs.get(name) is not each}
        inputs |= {f"{name}, as passed": tensor for name, tensor in taken.items()}
        found["inputs"] = inputs
        found["shared"] = shared_storages({**found["outputs"], **inputs})
        found["gradients"] = gradients(found["outputs"], passed, call["cotangents"], device)
    except Exception as error:  # noqa: BLE001 - compiled must raise what eager raises
        found["raised"] = error
        found["changed"] = [name for name, tensor in passed.items() if not unchanged(tensor, call["inputs"][name])]
    return found


def argument_leaves(given, *, into_modules=True):
    """The leaves of all arguments, by name."""
    found = (leaves(value, name, into_modules=into_modules) for name, value in given.items())
    return {path: leaf for each in found for path, leaf in each}


def gradients(outputs, inputs, cotangents, device):
    """Calls the backward of the outputs that have a cotangent. Returns name of the input → gradient or None."""
    recorded = {}
    leaf_inputs = {name: tensor for name, tensor in inputs.items() if tensor.is_leaf and tensor.requires_grad}
    for name, tensor in leaf_inputs.items():  # a hook, because `tensor.grad` has the strides of the input
        tensor.register_hook(lambda gradient, name=name: recorded.__setitem__(name, gradient))
    chosen = {name: cotangent for name, cotangent in cotangents.items() if takes(outputs.get(name), cotangent)}
    if chosen:
        torch.autograd.backward([outputs[name] for name in chosen], list(on_device(chosen, device).values()))
    return {name: recorded.get(name, tensor.grad) for name, tensor in leaf_inputs.items()}


def takes(tensor, cotangent):
    """Whether the backward of an output takes the cotangent."""
    if not isinstance(tensor, torch.Tensor) or not tensor.requires_grad:
        return False
    return (tensor.shape, tensor.dtype) == (cotangent.shape, cotangent.dtype)


def unchanged(tensor, before):
    """Whether a tensor has the shape and the bits of another one, on the CPU."""
    one, other = (each.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for each in (tensor, before))
    return tensor.shape == before.shape and torch.equal(one, other)
