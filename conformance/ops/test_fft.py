"""fft: Fourier transforms, which stay library calls, between real arithmetic, which Inductor fuses."""

import torch

from conformance import case, tensor

NO_GRAPH_BREAKS = {"graph_breaks": 0}


@case(
    x=tensor(3, 20),
    function={
        "fft": lambda x: torch.fft.fft(x.sin()).abs(),
        "rfft": lambda x: torch.view_as_real(torch.fft.rfft(x.sin())),
        "ortho": lambda x: torch.view_as_real(torch.fft.rfft(x, norm="ortho")),
        "padded": lambda x: torch.view_as_real(torch.fft.rfft(x, n=32)),
        "cut": lambda x: torch.view_as_real(torch.fft.fft(x, n=15)),
        "columns": lambda x: torch.view_as_real(torch.fft.rfft(x, dim=0)),
        "two": lambda x: torch.view_as_real(torch.fft.rfft2(x)),
        "there_and_back": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=20) + 1,
        "hermitian": lambda x: torch.fft.hfft(torch.complex(x, x)) + 1,
        "shifted": lambda x: torch.fft.fftshift(x.sin(), dim=-1),
        "shifted_back": lambda x: torch.fft.ifftshift(x.sin()),
        "frequencies": lambda x: x * torch.fft.fftfreq(20, device=x.device),
    },
    require={"all": NO_GRAPH_BREAKS},
)
def test_transforms(x, function):
    return function(x)


@case(
    x=tensor(3, 20),
    function={
        "power": lambda x: torch.fft.rfft(x).abs().square(),
        "low_pass": lambda x: torch.fft.irfft(torch.fft.rfft(x) * (torch.arange(11, device=x.device) < 4), n=20),
    },
    grad=True,
    require={"all": NO_GRAPH_BREAKS},
)
def test_gradient(x, function):
    return function(x)


@case(
    x=tensor(200),
    function={
        "stft": lambda x: torch.view_as_real(
            torch.stft(x, 16, hop_length=8, window=torch.hann_window(16, device=x.device), return_complex=True)
        ),
        "power": lambda x: torch.stft(
            x, 16, window=torch.ones(16, device=x.device), center=False, return_complex=True
        ).abs(),
    },
    require={"all": NO_GRAPH_BREAKS},
)
def test_short_time(x, function):
    return function(x)
