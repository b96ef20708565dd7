"""A vendor's package for PyTorch: the device `acme` and its Inductor backend.

`import torch_acme` registers both. The device is a stand-in: its memory and its kernels are the host's. A real device
has a runtime and kernels of its own here.
"""

from __future__ import annotations

import torch

from torch_acme import build, device

build.load_library()
torch.utils.rename_privateuse1_backend(device.NAME)
torch._register_device_module(device.NAME, device)
torch.ops.acme._register()
torch.utils.generate_methods_for_privateuse1_backend(unsupported_dtype=[torch.quint8])

from torch_acme import inductor  # noqa: E402 - it needs the device's name

inductor.register()
