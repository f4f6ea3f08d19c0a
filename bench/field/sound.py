"""Front ends for sound that need nothing but PyTorch: spectra, mel features, resampling, voice activity."""

import math

import torch
from torch import nn

from bench.field.exporting import Subject, Tensors, export, normal
from bench.field.specimen import Made

RATE, WINDOW, HOP, MELS = 8000, 128, 64, 20


def mel_filters(bins: int, mels: int, rate: int) -> torch.Tensor:
    """Triangles that are even on the mel scale."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, mels + 2) / 2595) - 1)
    frequencies = torch.linspace(0, rate / 2, bins)
    rising = (frequencies[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.clamp(torch.minimum(rising, falling), min=0)


class Spectrogram(nn.Module):
    """The power spectrum by torch.stft."""

    def __init__(self, is_centred: bool = True) -> None:
        super().__init__()
        self.is_centred = is_centred
        self.window: torch.Tensor
        self.register_buffer("window", torch.hann_window(WINDOW))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.stft(
            x, WINDOW, HOP, window=self.window, center=self.is_centred, pad_mode="reflect", return_complex=False
        )
        return found.pow(2).sum(-1)


class LogMel(nn.Module):
    """Log mel features."""

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = Spectrogram()
        self.filters: torch.Tensor
        self.register_buffer("filters", mel_filters(WINDOW // 2 + 1, MELS, RATE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mel = torch.matmul(self.filters, self.spectrum(x))
        log = torch.clamp(mel, min=1e-10).log10()
        return (torch.maximum(log, log.amax((1, 2), keepdim=True) - 8.0) + 4.0) / 4.0


class Mfcc(nn.Module):
    """Cepstral coefficients, normalised over time."""

    def __init__(self) -> None:
        super().__init__()
        self.mel = LogMel()
        place = torch.arange(MELS)
        basis = torch.cos(math.pi / MELS * (place[None] + 0.5) * torch.arange(13)[:, None])
        self.basis: torch.Tensor
        self.register_buffer("basis", basis * math.sqrt(2 / MELS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.matmul(self.basis, self.mel(x))
        return (found - found.mean(-1, keepdim=True)) / (found.std(-1, keepdim=True) + 1e-5)


class ConvSpectrum(nn.Module):
    """The spectrum as a convolution with sines, as older exporters need it, and a small recogniser over it."""

    def __init__(self) -> None:
        super().__init__()
        place = torch.arange(WINDOW)
        angle = 2 * math.pi * torch.arange(WINDOW // 2 + 1)[:, None] * place[None] / WINDOW
        basis = torch.cat([torch.cos(angle), -torch.sin(angle)]) * torch.hann_window(WINDOW)
        self.basis: torch.Tensor
        self.register_buffer("basis", basis[:, None])
        self.recurrent = nn.GRU(WINDOW // 2 + 1, 32, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 29)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(x[:, None], (WINDOW // 2, WINDOW // 2), mode="reflect")
        real, imaginary = torch.chunk(nn.functional.conv1d(padded, self.basis, stride=HOP), 2, 1)
        power = torch.log1p(real.square() + imaginary.square())
        return self.head(self.recurrent(power.transpose(1, 2))[0]).log_softmax(-1)


class Keywords(nn.Module):
    """STFT, mel, and a small convolutional network: keyword spotting in one file."""

    def __init__(self) -> None:
        super().__init__()
        self.mel = LogMel()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1, groups=16),
            nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(32, 12),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.mel(x)[:, None]).softmax(-1)


class Resampler(nn.Module):
    """Sinc resampling from 3 to 2 samples, with its filter computed in the graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old, new, width = 3, 2, 12
        place = torch.arange(-width, width + old, dtype=torch.float32)[None] / old
        time = (torch.arange(0, -new, -1, dtype=torch.float32)[:, None] / new + place) * 1.98
        time = time.clamp(-6, 6)
        window = torch.cos(time * math.pi / 12) ** 2
        time = time * math.pi
        kernels = torch.where(time == 0, torch.ones(()), time.sin() / torch.where(time == 0, torch.ones(()), time))
        kernel = kernels * window * (0.99 / old)
        padded = nn.functional.pad(x, (width, width + old))
        found = nn.functional.conv1d(padded[:, None], kernel[:, None], stride=old)
        return found.transpose(1, 2).reshape(x.shape[0], -1)


class WaveNet(nn.Module):
    """Dilated gated convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 16, 1)
        self.gates = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(6))
        self.skips = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(6))
        self.head = nn.Conv1d(16, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.start(x[:, None])
        total = torch.zeros_like(x)
        for place, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
            left, right = gate(nn.functional.pad(x, (2**place, 0))).chunk(2, 1)
            y = skip(torch.tanh(left) * torch.sigmoid(right))
            total, x = total + y, x + y
        return self.head(torch.relu(total))


class Separator(nn.Module):
    """A ConvTasNet: encode, mask, decode by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 32, 16, 8, bias=False)
        self.norm = nn.GroupNorm(1, 32)
        blocks = [nn.Sequential(nn.Conv1d(32, 48, 1), nn.PReLU(), nn.GroupNorm(1, 48),
                                nn.Conv1d(48, 48, 3, padding=2**i, dilation=2**i, groups=48), nn.PReLU(),
                                nn.GroupNorm(1, 48), nn.Conv1d(48, 32, 1)) for i in range(4)]  # fmt: skip
        self.blocks = nn.ModuleList(blocks)
        self.mask = nn.Conv1d(32, 64, 1)
        self.decoder = nn.ConvTranspose1d(32, 1, 16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = self.encoder(x[:, None]).relu()
        y = self.norm(code)
        for block in self.blocks:
            y = y + block(y)
        masks = self.mask(y).sigmoid().unflatten(1, (2, 32))
        heard = (masks * code[:, None]).flatten(0, 1)
        return self.decoder(heard).unflatten(0, (x.shape[0], 2)).squeeze(2)


class Inverse(nn.Module):
    """A spectrum, damped, and back to sound: torch.istft."""

    def __init__(self) -> None:
        super().__init__()
        self.window: torch.Tensor
        self.register_buffer("window", torch.hann_window(WINDOW))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.stft(x, WINDOW, HOP, window=self.window, return_complex=True)
        return torch.istft(found * 0.5, WINDOW, HOP, window=self.window)


MODELS = {
    "spectrogram": Spectrogram, "spectrogram-valid": lambda: Spectrogram(False), "log-mel": LogMel, "mfcc": Mfcc,
    "conv-spectrum": ConvSpectrum, "keywords": Keywords, "resampler": Resampler, "wavenet": WaveNet,
    "separator": Separator, "istft": Inverse,
}  # fmt: skip


def sound(name: str, exporter: str) -> Made:
    """A module over samples of sound."""
    torch.manual_seed(0)

    def inputs(batch: int, samples: int) -> Tensors:
        return {"x": normal(batch, samples, scale=0.3)}

    cases = [{"batch": 2, "samples": 1200}, {"batch": 1, "samples": 8000}, {"batch": 3, "samples": 999}]
    made = export(Subject(MODELS[name](), inputs, {"x": {0: "batch", 1: "samples"}}, cases), exporter)
    return Made(made.model, [made.cases[place] for place in (1, 0, 2)])
