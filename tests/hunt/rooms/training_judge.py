"""The judge of training runs: PyTorch's layers, losses, optimizers and schedules, in double precision and shaken."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch.nn import functional as F

from intaglio import train

from .training_plans import DECAY, Array, Layer, Plan

EPSILON, KEPT, SLOPE = (float(np.float32(number)) for number in (1e-5, 0.9, 0.01))
"""Attributes of ONNX's operators, which are single numbers in any precision."""
SLOTS = {"momentum": "momentum_buffer"}
"""Our names of what optimizers keep, where PyTorch has another."""


class Lion(torch.optim.Optimizer):
    """Lion, which PyTorch lacks, as its paper has it."""

    def __init__(self, groups: Any, lr: float, weight_decay: float, betas: tuple[float, float]) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "betas": betas})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(first * mean + (1 - first) * p.grad))
                self.state[p]["exp_avg"] = second * mean + (1 - second) * p.grad


class _ShakenNorm(torch.autograd.Function):
    """A normalization that moves every part. Its gradient takes the sum of deviations for 0, as all do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axes: list[int], judge: Judge) -> torch.Tensor:
        shaken = judge.shaken
        centred = shaken(x - judge.shaken_mean(x, axes))
        inverse = shaken(1 / torch.sqrt(shaken((centred * centred).mean(axes, keepdim=True)) + EPSILON))
        y = shaken(centred * inverse)
        ctx.save_for_backward(y, inverse)
        ctx.axes, ctx.shaken = axes, shaken
        return y

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> Any:
        (y, inverse), shaken, bar = ctx.saved_tensors, ctx.shaken, bars[0]
        shift, slope = (shaken(part.mean(ctx.axes, keepdim=True)) for part in (bar, bar * y))
        return shaken(shaken(bar * inverse) - shaken(shift * inverse) - shaken(y * slope * inverse)), None, None


class Judge:
    """A run of PyTorch. With `noise`, all that layers give, and the weights after each update, move by so much."""

    def __init__(self, plan: Plan, dtype: torch.dtype, noise: float = 0.0, seed: int = 0) -> None:
        self.plan, self.dtype, self.noise = plan, dtype, noise
        self.update_noise = min(noise, 2.0**-24)
        self.random = torch.Generator().manual_seed(seed)
        weights = {name: array for layer in plan.layers for name, array in layer.weights.items()}
        self.weights = {name: torch.tensor(array, dtype=dtype) for name, array in weights.items()}
        statistics = {name: array for layer in plan.layers for name, array in layer.statistics.items()}
        self.statistics = {name: torch.tensor(array, dtype=dtype) for name, array in statistics.items()}
        self.trained = {name: self.weights[name].requires_grad_() for name in plan.trained}
        self.averages = {name: p.detach().clone() for name, p in self.trained.items()}
        self.optimizer = self._optimizer()
        self.scheduler = self._scheduler()
        self.totals = {name: torch.zeros_like(p) for name, p in self.trained.items()}
        self.pending = self.updates = 0

    def run(self) -> dict[str, Array]:
        """All losses, and the state at the end."""
        losses = [self.step(x, target) for x, target in self.plan.batches]
        found = {"losses": np.array(losses)} | {n: t.numpy() for n, t in self.statistics.items()}
        for name, p in self.trained.items():
            found[name] = p.detach().numpy()
            if "ema" in self.plan.settings:
                found[f"{name}@ema"] = self.averages[name].numpy()
            for slot in self.plan.optimizer.slots():
                held = self.optimizer.state.get(p, {}).get(SLOTS.get(slot, slot))
                first = torch.full_like(p, self.plan.optimizer.slots()[slot])
                found[f"{name}@{slot}"] = (first if held is None else held).detach().numpy()
        x = next(x for x, _ in self.plan.batches if np.isfinite(x).all())
        with torch.no_grad():
            found["prediction"] = self.forward(self._tensor(x), is_training=False).numpy()
        return found

    def step(self, x: Array, target: Array) -> float:
        kept = {name: tensor.clone() for name, tensor in self.statistics.items()}
        loss = self.loss(self.forward(self._tensor(x), is_training=True), target)
        gradients = torch.autograd.grad(loss, list(self.trained.values()))
        totals = {n: total + g for (n, total), g in zip(self.totals.items(), gradients, strict=True)}
        if not torch.isfinite(loss) or not (self.accumulate == 1 or self._may_be_added(totals)):
            self.statistics = kept
            return loss.item()
        before, self.totals = self.totals, totals
        self.pending += 1
        if self.pending == self.accumulate:
            if not self.update() and self.accumulate == 1:
                self.statistics = kept
            self.pending, self.totals = 0, {name: torch.zeros_like(total) for name, total in before.items()}
        return loss.item()

    @property
    def accumulate(self) -> int:
        return self.plan.settings.get("accumulate", 1)

    def _may_be_added(self, totals: dict[str, torch.Tensor]) -> bool:
        return "clip_value" in self.plan.settings or all(torch.isfinite(total).all() for total in totals.values())

    def update(self) -> bool:
        """One update by the gradients that were added up; False where it is not taken, as it breaks weights."""
        saved = self.optimizer.state_dict()
        state = {
            p: {k: v.clone() if torch.is_tensor(v) else v for k, v in s.items()}
            for p, s in self.optimizer.state.items()
        }
        weights = {name: p.detach().clone() for name, p in self.trained.items()}
        for name, p in self.trained.items():
            p.grad = self.shaken(self.totals[name] / self.accumulate)
        if "clip_value" in self.plan.settings:
            torch.nn.utils.clip_grad_value_(list(self.trained.values()), self.plan.settings["clip_value"])
        if "clip_norm" in self.plan.settings:
            torch.nn.utils.clip_grad_norm_(list(self.trained.values()), self.plan.settings["clip_norm"])
        self._shake_decay()
        self.optimizer.step()
        watched = [*self.trained.values()]
        if isinstance(self.plan.optimizer, train.Lion):
            watched += [state["exp_avg"] for state in self.optimizer.state.values()]
        if not all(torch.isfinite(tensor).all() for tensor in watched):
            self.optimizer.load_state_dict(saved)
            self.optimizer.state.clear()
            self.optimizer.state.update(state)
            with torch.no_grad():
                for name, p in self.trained.items():
                    p.copy_(weights[name])
            return False
        self.scheduler.step()
        self.updates += 1
        with torch.no_grad():
            for name, p in self.trained.items():
                p.add_(self.update_noise * self._noise(p) * (p.abs() + (p - weights[name]).abs()))
                for slot in self.optimizer.state[p].values():
                    if torch.is_tensor(slot) and slot.shape == p.shape:
                        slot.mul_(1 + self.update_noise * self._noise(p))
                decay = self.plan.settings.get("ema", 0.0)
                average = decay * self.averages[name] + (1 - decay) * p.detach()
                self.averages[name] = average * (1 + self.update_noise * self._noise(p))
        return True

    def _shake_decay(self) -> None:
        """Move gradients by a rounding of what most optimizers add to them."""
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                p.grad = p.grad + self.update_noise * self._noise(p) * group["weight_decay"] * p.detach().abs()

    def _noise(self, like: torch.Tensor) -> torch.Tensor:
        return 2 * torch.rand(like.shape, generator=self.random, dtype=like.dtype) - 1

    def shaken(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1 + self.noise * self._noise(x)) if self.noise else x

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.tensor(array) if array.dtype.kind in "iu" else torch.tensor(array, dtype=self.dtype)

    def forward(self, x: torch.Tensor, is_training: bool) -> torch.Tensor:
        if not self.plan.is_embedded:
            x = self.shaken(x)
        for layer in self.plan.layers:
            x = self.shaken(self.apply(layer, x, is_training))
        return x

    def apply(self, layer: Layer, x: torch.Tensor, is_training: bool) -> torch.Tensor:
        w = {name.partition(".")[2]: self.shaken(self.weights[name]) for name in layer.weights}
        match layer.kind:
            case "embedding":
                return w["table"][x]
            case "dense":
                product = self.shaken(x @ (w["weight"].T if layer.word else w["weight"]))
                return product + w["bias"] if "bias" in w else product
            case "residual":
                return x + self.shaken(torch.tanh(self.shaken(x @ w["weight"])))
            case "tied":
                return self.shaken(torch.tanh(self.shaken(x @ w["weight"]))) @ w["weight"].T
            case "activation":
                return ACTIVATIONS[layer.word](x)
            case "root":
                return torch.sqrt(torch.abs(x))
            case "normalization":
                return self.normalized(layer, x, w, is_training)
            case "layer normalization":
                if self.noise:
                    return self.shaken_norm(x, [-1]) * w["scale"] + w["bias"]
                return F.layer_norm(x, x.shape[-1:], w["scale"], w["bias"], EPSILON)
            case "convolution":
                margin, stride = layer.numbers
                return F.conv2d(x, w["weight"], w.get("bias"), stride, margin)
            case "pool":
                return F.max_pool2d(x, 2) if layer.word == "MaxPool" else F.avg_pool2d(x, 2)
            case "attention":
                q, k, v = (self.shaken(x @ w[name]) for name in "qkv")
                return self.shaken(torch.softmax(self.shaken(q @ k.transpose(1, 2)) / 2, -1)) @ v
            case "mean":
                return x.mean(layer.numbers)
            case _:
                return torch.log_softmax(x, 1)

    def normalized(self, layer: Layer, x: torch.Tensor, w: dict[str, torch.Tensor], is_training: bool) -> torch.Tensor:
        """By the batch, unless scale and bias are frozen."""
        own = is_training and any(name in self.trained for name in layer.weights)
        mean, variance = (self.statistics[name] for name in layer.statistics)
        made = F.batch_norm(x, mean, variance, w["scale"], w["bias"], own, 1 - KEPT, EPSILON)
        if not self.noise or not own:
            return made
        by_channel = (-1, *[1] * (x.ndim - 2))
        axes = [axis for axis in range(x.ndim) if axis != 1]
        return self.shaken_norm(x, axes) * w["scale"].reshape(by_channel) + w["bias"].reshape(by_channel)

    def shaken_norm(self, x: torch.Tensor, axes: list[int]) -> torch.Tensor:
        """A normalization of which every part is moved."""
        return cast("torch.Tensor", _ShakenNorm.apply(x, axes, self))

    def shaken_mean(self, x: torch.Tensor, axes: list[int]) -> torch.Tensor:
        """A mean that moves as a sum of so many terms does: by the root of their number, and by their size.

        What is left of equal numbers less their mean is this error alone.
        """
        mean, count = x.mean(axes, keepdim=True), math.prod(x.shape[axis] for axis in axes)
        size = x.abs().mean(axes, keepdim=True)
        return mean + self.noise * self._noise(mean) * size * math.sqrt(count)

    def loss(self, x: torch.Tensor, target: Array) -> torch.Tensor:
        loss = self.plan.loss
        t = torch.tensor(target.astype(np.int64)) if target.dtype.kind in "iu" else self._tensor(target)
        how = loss.reduction
        match loss:
            case train.CrossEntropy():
                ignored = -100 if loss.soft else loss.ignore_index
                given: dict[str, Any] = {"reduction": how, "label_smoothing": loss.label_smoothing}
                return F.cross_entropy(x, t, self._optional(loss.weight), ignore_index=ignored, **given)
            case train.NLL():
                return F.nll_loss(x, t, self._optional(loss.weight), ignore_index=loss.ignore_index, reduction=how)
            case train.MSE():
                return F.mse_loss(x, t, reduction=how)
            case train.L1():
                return F.l1_loss(x, t, reduction=how)
            case train.Huber():
                return F.huber_loss(x, t, reduction=how, delta=loss.delta)
            case train.BCEWithLogits():
                weight = self._optional(loss.pos_weight)
                return F.binary_cross_entropy_with_logits(x, t, pos_weight=weight, reduction=how)
            case _:
                return F.kl_div(x, t, reduction=how, log_target=loss.log_target)

    def _optional(self, array: Any) -> Any:
        return None if array is None else torch.tensor(array, dtype=self.dtype)

    def _optimizer(self) -> torch.optim.Optimizer:
        ours = self.plan.optimizer
        given = {name: getattr(ours, name) for name in ours.__dict__}
        kind = Lion if isinstance(ours, train.Lion) else getattr(torch.optim, type(ours).__name__)
        own = {name: group for group in self.plan.settings["groups"] for name in group.weights}
        groups = []
        for name, p in self.trained.items():
            chosen = {key: getattr(own[name], key) for key in ("lr", "weight_decay")} if name in own else {}
            groups.append({"params": [p]} | {key: value for key, value in chosen.items() if value is not None})
        return kind(groups, **given)

    def _scheduler(self) -> Any:
        name, numbers = self.plan.schedule[0], list(self.plan.schedule[1])
        rates = [group["lr"] for group in self.optimizer.param_groups]
        schedulers = torch.optim.lr_scheduler
        match name:
            case "constant":
                return schedulers.ConstantLR(self.optimizer, 1.0)
            case "cosine":
                return schedulers.CosineAnnealingLR(
                    self.optimizer, int(numbers[0]), numbers[1] * self.plan.optimizer.lr
                )
            case "warmup":
                steps, first, *length = numbers
                rise = schedulers.LinearLR(self.optimizer, first, 1.0, int(steps))
                then = (
                    schedulers.CosineAnnealingLR(self.optimizer, int(length[0]))
                    if length
                    else schedulers.StepLR(self.optimizer, *DECAY)
                )
                return schedulers.SequentialLR(self.optimizer, [rise, then], [int(steps)])
            case "step_decay":
                return schedulers.StepLR(self.optimizer, int(numbers[0]), numbers[1])
            case _:
                rise, first, last = numbers[1:] if len(numbers) > 1 else (0.3, 1 / 25, 1 / 25e4)
                return schedulers.OneCycleLR(
                    self.optimizer, [max(rate, 1e-300) for rate in rates], int(numbers[0]), pct_start=rise,
                    cycle_momentum=False, div_factor=1 / first, final_div_factor=first / last,
                )  # fmt: skip


ACTIVATIONS: dict[str, Any] = {
    "Relu": torch.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Gelu": F.gelu, "Elu": F.elu,
    "Softplus": F.softplus, "LeakyRelu": lambda x: F.leaky_relu(x, SLOPE), "Mish": F.mish, "HardSwish": F.hardswish,
}  # fmt: skip
