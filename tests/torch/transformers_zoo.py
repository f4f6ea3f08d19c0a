"""Small models of transformers with random weights: one for each architecture, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

VOCABULARY = 61
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = {**SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
QUIET = {"attention_dropout": 0.0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclass(frozen=True)
class Architecture:
    """A model to build, whether it writes text, and its inputs for a batch of some size."""

    kind: str
    """The class that makes the model: `AutoModelForCausalLM` and the like."""
    settings: dict[str, Any]
    inputs: Callable[[int, int], dict[str, Any]]
    """Inputs for a batch and a length."""
    writes: bool = False

    def build(self, name: str) -> Any:
        """The model with random weights, the same in every run."""
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(name, **self.settings)
        return getattr(transformers, self.kind).from_config(config)


def _tokens(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, VOCABULARY, (batch, length))}


def _pairs(batch: int, length: int) -> dict[str, Any]:
    return {**_tokens(batch, length), "decoder_input_ids": torch.randint(3, VOCABULARY, (batch, 4))}


def _pictures(batch: int, length: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


def _spectra(batch: int, length: int) -> dict[str, Any]:
    tokens = torch.randint(3, VOCABULARY, (batch, 4))
    return {"input_features": torch.randn(batch, 8, 40), "decoder_input_ids": tokens}


def _sounds(batch: int, length: int) -> dict[str, Any]:
    return {"input_values": torch.randn(batch, 400)}


def _writer(**settings: Any) -> Architecture:
    return Architecture("AutoModelForCausalLM", {**TEXT, **ENDS, **settings}, _tokens, writes=True)


def _reader(kind: str = "AutoModelForMaskedLM", **settings: Any) -> Architecture:
    return Architecture(kind, {**TEXT, **QUIET, "pad_token_id": 0, **settings}, _tokens)


def _seer(**settings: Any) -> Architecture:
    return Architecture("AutoModelForImageClassification", {"image_size": 32, "patch_size": 8, **settings}, _pictures)


_CHANNELS = {"hidden_sizes": [8, 16], "depths": [1, 1]}
_BOTH = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "vocab_size": VOCABULARY,
    "dropout": 0.0,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 64,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
    **ENDS,
}
_GROUPED = {"num_key_value_heads": 2}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": VOCABULARY,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.0,
}
_WHISPER = {**_BOTH, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 64, "suppress_tokens": None}
_SOUND = {
    **SIZES,
    **QUIET,
    "conv_dim": [16, 16],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "vocab_size": 32,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
}

ARCHITECTURES: dict[str, Architecture] = {
    "gpt2": _writer(n_embd=32, n_layer=2, n_head=4, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0),
    "llama": _writer(**_GROUPED),
    "mistral": _writer(**_GROUPED, sliding_window=6),
    "qwen2": _writer(**_GROUPED),
    "qwen3": _writer(**_GROUPED, head_dim=8),
    "gemma": _writer(**_GROUPED, head_dim=8),
    "gemma2": _writer(**_GROUPED, head_dim=8, sliding_window=6, query_pre_attn_scalar=8),
    "phi": _writer(),
    "opt": _writer(ffn_dim=48, word_embed_proj_dim=32, dropout=0.0, layerdrop=0.0),
    "gpt_neox": _writer(),
    "gptj": _writer(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64),
    "bloom": _writer(n_layer=2, n_head=4),
    "falcon": _writer(),
    "olmo": _writer(),
    "stablelm": _writer(num_key_value_heads=4),
    "granite": _writer(**_GROUPED),
    "cohere": _writer(**_GROUPED),
    "mixtral": _writer(**_GROUPED, num_local_experts=4),
    "t5": Architecture("AutoModelForSeq2SeqLM", _T5, _pairs, writes=True),
    "bart": Architecture("AutoModelForSeq2SeqLM", _BOTH, _pairs, writes=True),
    "whisper": Architecture("AutoModelForSpeechSeq2Seq", _WHISPER, _spectra, writes=True),
    "bert": _reader(),
    "roberta": _reader(),
    "distilbert": _reader(dim=32, n_layers=2, n_heads=4, hidden_dim=48, dropout=0.0),
    "albert": _reader(embedding_size=16),
    "electra": _reader(embedding_size=16),
    "vit": _seer(**SIZES, **QUIET),
    "resnet": Architecture("AutoModelForImageClassification", {**_CHANNELS, "embedding_size": 8}, _pictures),
    "convnext": Architecture("AutoModelForImageClassification", {**_CHANNELS, "num_stages": 2}, _pictures),
    "wav2vec2": Architecture("AutoModelForCTC", _SOUND, _sounds),
}

SHAPES = ((2, 7), (3, 9), (4, 11))
"""Batches and lengths of the calls that are compared."""
CLOSE = 1e-4
STEPS = 5


def output_differs(model: Any, fast: Any, inputs: dict[str, Any]) -> float:
    """The greatest difference of the logits."""
    with torch.no_grad():
        return _apart(model(**inputs).logits, fast(**inputs).logits)


def gradients_differ(model: Any, fast: Any, inputs: dict[str, Any]) -> float:
    """The greatest difference of gradients of weights after a training step; infinite where only one has a gradient."""
    found: list[list[Any]] = []
    for run in (model, fast):
        model.zero_grad()
        run(**inputs).logits.square().mean().backward()
        found.append([None if weight.grad is None else weight.grad.clone() for weight in model.parameters()])
    model.zero_grad()
    pairs = zip(*found, strict=True)
    return max(_apart(mine, theirs) for mine, theirs in pairs)


def _apart(expected: Any, found: Any) -> float:
    if expected is None or found is None:
        return 0.0 if expected is found else float("inf")
    apart = (expected - found).abs().max().item()
    return apart if apart == apart else float("inf")


def writes_alike(model: Any, backend: Any, inputs: dict[str, Any], cache: str) -> bool:
    """Whether the compiled model writes eager's tokens, as far as eager's two best are not within rounding."""
    given = {name: value for name, value in inputs.items() if not name.startswith("decoder")}
    eager = _written(model, given, cache)
    plain = model.forward
    model.forward = torch.compile(plain, backend=backend)
    try:
        fast = _written(model, given, cache)
    finally:
        del model.forward
    return all(_row_is_alike(eager, fast, row) for row in range(eager.sequences.shape[0]))


def _written(model: Any, inputs: dict[str, Any], cache: str) -> Any:
    chosen = {"cache_implementation": "static"} if cache == "static" else {}
    model.generation_config.disable_compile = True  # else transformers compiles the model itself, with inductor
    return model.generate(
        **inputs,
        **chosen,
        max_new_tokens=STEPS,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )


def _row_is_alike(eager: Any, fast: Any, row: int) -> bool:
    """Compare the tokens of a row up to the first that eager chose by rounding."""
    first = eager.sequences.shape[1] - len(eager.logits)
    for step, logits in enumerate(eager.logits):
        best = logits[row].float().topk(2).values
        if best[0] - best[1] <= CLOSE:
            return True
        if eager.sequences[row, first + step] != fast.sequences[row, first + step]:
            return False
    return True
