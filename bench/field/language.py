"""Language models of transformers with random weights: decoders with their caches, encoders, encoder-decoders."""

from typing import Any

import torch
import transformers
from torch import nn

from bench.field.exporting import Subject, Tensors, export, tokens
from bench.field.specimen import Made

VOCABULARY = 500
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GATED = {**SMALL, "intermediate_size": 128, "num_key_value_heads": 2, "max_position_embeddings": 128,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
LARGE = {"vocab_size": 8000, "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
LARGE_GATED = {**LARGE, "intermediate_size": 1376, "num_key_value_heads": 4, "max_position_embeddings": 512,
               "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
GPT = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

# The prefix of the classes, and the settings.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", GATED),
    "llama-large": ("Llama", LARGE_GATED),
    "mistral": ("Mistral", {**GATED, "sliding_window": 6}),
    "qwen2": ("Qwen2", GATED),
    "qwen2-large": ("Qwen2", LARGE_GATED),
    "qwen3": ("Qwen3", {**GATED, "head_dim": 16}),
    "gemma": ("Gemma", {**GATED, "head_dim": 16}),
    "gemma2": ("Gemma2", {**GATED, "head_dim": 16, "sliding_window": 6}),
    "gemma3": ("Gemma3", {**GATED, "head_dim": 16, "sliding_window": 6}),
    "phi": ("Phi", {**GATED, "num_key_value_heads": 4}),
    "phi3": ("Phi3", GATED),
    "gpt2": ("GPT2", {**GPT, **ENDS}),
    "gpt2-large": ("GPT2", {"vocab_size": 8000, "n_embd": 512, "n_layer": 4, "n_head": 8, "n_positions": 512, **ENDS}),
    "gpt-neox": ("GPTNeoX", {**SMALL, **ENDS, "intermediate_size": 128, "max_position_embeddings": 128}),
    "gpt-neo": ("GPTNeo", {"vocab_size": VOCABULARY, "hidden_size": 64, "num_layers": 2, "num_heads": 4, **ENDS,
                           "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 128,
                           "window_size": 6}),
    "gptj": ("GPTJ", {**GPT, **ENDS, "rotary_dim": 8}),
    "opt": ("OPT", {**SMALL, **ENDS, "ffn_dim": 128, "max_position_embeddings": 128, "word_embed_proj_dim": 64}),
    "bloom": ("Bloom", {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 4, **ENDS}),
    "falcon": ("Falcon", {**SMALL, **ENDS, "new_decoder_architecture": False, "multi_query": True, "alibi": False}),
    "mpt": ("Mpt", {"vocab_size": VOCABULARY, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 128, **ENDS}),
    "stablelm": ("StableLm", {**GATED, "partial_rotary_factor": 0.25}),
    "olmo": ("Olmo", GATED),
    "olmo2": ("Olmo2", GATED),
    "granite": ("Granite", GATED),
    "cohere": ("Cohere", GATED),
    "starcoder2": ("Starcoder2", {**GATED, "sliding_window": None}),
    "codegen": ("CodeGen", {**GPT, **ENDS, "rotary_dim": 8}),
    "biogpt": ("BioGpt", {**SMALL, **ENDS, "intermediate_size": 128, "max_position_embeddings": 128}),
    "mixtral": ("Mixtral", {**GATED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "smollm3": ("SmolLM3", GATED),
    "nemotron": ("Nemotron", {**GATED, "head_dim": 16}),
    "persimmon": ("Persimmon", {**GATED, "num_key_value_heads": 4}),
    "xglm": ("XGLM", {"vocab_size": VOCABULARY, "d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 128,
                      "max_position_embeddings": 128, **ENDS}),
    "helium": ("Helium", {**GATED, "head_dim": 16}),
    "glm": ("Glm", {**GATED, "head_dim": 16}),
    "exaone4": ("Exaone4", {**GATED, "head_dim": 16, "sliding_window": 6, "sliding_window_pattern": 2}),
}  # fmt: skip

BERT = {**SMALL, "intermediate_size": 128, "max_position_embeddings": 130}
# The prefix of the classes, the suffix of the model's, and the settings.
ENCODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("Bert", "Model", BERT),
    "bert-large": ("Bert", "Model", {**LARGE, "intermediate_size": 2048}),
    "bert-classifier": ("Bert", "ForSequenceClassification", {**BERT, "num_labels": 3}),
    "bert-answers": ("Bert", "ForQuestionAnswering", BERT),
    "roberta": ("Roberta", "Model", {**BERT, "pad_token_id": 1}),
    "roberta-mask": ("Roberta", "ForMaskedLM", {**BERT, "pad_token_id": 1}),
    "xlm-roberta": ("XLMRoberta", "ForTokenClassification", {**BERT, "pad_token_id": 1}),
    "camembert": ("Camembert", "Model", {**BERT, "pad_token_id": 1}),
    "distilbert": ("DistilBert", "Model", {"vocab_size": VOCABULARY, "dim": 64, "n_layers": 2, "n_heads": 4,
                                           "hidden_dim": 128, "max_position_embeddings": 130}),
    "electra": ("Electra", "Model", {**BERT, "embedding_size": 32}),
    "albert": ("Albert", "Model", {**BERT, "embedding_size": 32}),
    "deberta": ("Deberta", "Model", {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta-v2": ("DebertaV2", "Model", {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                                          "position_buckets": 16, "norm_rel_ebd": "layer_norm",
                                          "share_att_key": True, "position_biased_input": False}),
    "mpnet": ("MPNet", "Model", {**BERT, "pad_token_id": 1}),
    "convbert": ("ConvBert", "Model", {**BERT, "embedding_size": 32, "head_ratio": 2, "conv_kernel_size": 3}),
    "squeezebert": ("SqueezeBert", "Model", {**BERT, "embedding_size": 64}),
    "mobilebert": ("MobileBert", "Model", {**BERT, "embedding_size": 32, "intra_bottleneck_size": 32}),
    "fnet": ("FNet", "Model", BERT),
    "funnel": ("Funnel", "Model", {"vocab_size": VOCABULARY, "d_model": 64, "n_head": 4, "d_head": 16,
                                   "d_inner": 128, "block_sizes": [1, 1], "num_decoder_layers": 1}),
    "modernbert": ("ModernBert", "Model", {**BERT, **ENDS, "cls_token_id": 3, "sep_token_id": 4,
                                           "local_attention": 8}),
    "nystromformer": ("Nystromformer", "Model", {**BERT, "num_landmarks": 8, "segment_means_seq_len": 16}),
    "roformer": ("RoFormer", "Model", {**BERT, "embedding_size": 32}),
    "xlnet": ("XLNet", "Model", {"vocab_size": VOCABULARY, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128}),
    "longformer": ("Longformer", "Model", {**BERT, "attention_window": 8}),
    "big-bird": ("BigBird", "Model", {**BERT, "attention_type": "original_full"}),
    "layoutlm": ("LayoutLM", "Model", BERT),
    "ibert": ("IBert", "Model", {**BERT, "pad_token_id": 1}),
    "esm": ("Esm", "Model", {**BERT, "pad_token_id": 1, "position_embedding_type": "rotary"}),
    "rembert": ("RemBert", "Model", {**BERT, "input_embedding_size": 32, "output_embedding_size": 32}),
    "clip-text": ("CLIPText", "Model", {**BERT, **ENDS}),
    "canine": ("Canine", "Model", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                                   "intermediate_size": 128, "num_hash_buckets": 64}),
}  # fmt: skip

T5 = {"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}  # fmt: skip
BART = {"vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 128,
        "max_position_embeddings": 128, "decoder_start_token_id": 2, "forced_eos_token_id": None, **ENDS}  # fmt: skip
TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5", T5),
    "flan-t5": ("T5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("MT5", T5),
    "bart": ("Bart", BART),
    "mbart": ("MBart", BART),
    "pegasus": ("Pegasus", BART),
    "marian": ("Marian", {**BART, "decoder_vocab_size": VOCABULARY}),
    "m2m100": ("M2M100", BART),
    "blenderbot": ("Blenderbot", BART),
    "led": ("LED", {**BART, "attention_window": 8, "max_encoder_position_embeddings": 128,
                    "max_decoder_position_embeddings": 128}),
    "prophetnet": ("ProphetNet", {"vocab_size": VOCABULARY, "hidden_size": 64, "num_encoder_layers": 2,
                                  "num_decoder_layers": 2, "num_encoder_attention_heads": 4,
                                  "num_decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
                                  "max_position_embeddings": 128, **ENDS}),
}  # fmt: skip


def configured(prefix: str, suffix: str, settings: dict[str, Any]) -> nn.Module:
    """A model of transformers with random weights."""
    torch.manual_seed(0)
    kind = getattr(transformers, f"{prefix}{suffix}")
    config = kind.config_class(**settings)
    config._attn_implementation = "eager"
    return kind(config).float().eval()


class WithCache(nn.Module):
    """A decoder that is given the keys and values of the past and returns them longer."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **past: torch.Tensor) -> Any:
        arrays = list(past.values())
        cache = transformers.DynamicCache()
        for layer in range(len(arrays) // 2):
            cache.update(arrays[2 * layer], arrays[2 * layer + 1], layer)
        found = self.model(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True, return_dict=True
        )
        present = found.past_key_values
        return [found.logits, *(t for layer in present.layers for t in (layer.keys, layer.values))]


def decoder(name: str, exporter: str) -> Made:
    """A decoder with cache."""
    prefix, settings = DECODERS[name]
    model = configured(prefix, {"GPT2": "LMHeadModel"}.get(prefix, "ForCausalLM"), settings)
    config: Any = model.config
    layers = config.num_hidden_layers
    heads, width = _cache_shape(model)

    def inputs(batch: int, sequence: int, past: int) -> Tensors:
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        if batch > 1:
            mask[0, :1] = 0
        found = {"input_ids": tokens(config.vocab_size, batch, sequence), "attention_mask": mask}
        for place in range(2 * layers):
            kind = "value" if place % 2 else "key"
            shape = (batch, heads, past, width)
            found[f"past.{place // 2}.{kind}"] = torch.randn(shape, generator=torch.Generator().manual_seed(place))
        return found

    axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {name: {0: "batch", 2: "past"} for name in inputs(1, 1, 1) if name.startswith("past")}
    long = 64 if name.endswith("large") else 9
    cases = [{"batch": 2, "sequence": 3, "past": 5}, {"batch": 1, "sequence": 1, "past": long},
             {"batch": 1, "sequence": 12, "past": 0}, {"batch": 3, "sequence": 2, "past": 7}]  # fmt: skip
    made = export(Subject(WithCache(model), inputs, axes, cases), exporter)
    return Made(made.model, [made.cases[place] for place in (1, 0, 2, 3)])  # one more token is what is timed


def _cache_shape(model: nn.Module) -> tuple[int, int]:
    """Heads and width of the keys, found by a run."""
    with torch.no_grad():
        found = model(input_ids=torch.tensor([[5, 6]]), use_cache=True).past_key_values
    _, heads, _, width = found.layers[0].keys.shape
    return heads, width


def encoder(name: str, exporter: str) -> Made:
    """An encoder over padded tokens."""
    prefix, suffix, settings = ENCODERS[name]
    model = configured(prefix, suffix, settings)

    def inputs(batch: int, sequence: int) -> Tensors:
        mask = torch.ones(batch, sequence, dtype=torch.int64)
        mask[0, -2:] = 0
        ids = tokens(settings.get("vocab_size", VOCABULARY), batch, sequence)
        return {"input_ids": torch.where(mask == 1, ids, settings.get("pad_token_id", 0)), "attention_mask": mask}

    axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")}
    long = 128 if name.endswith("large") else 32
    cases = [{"batch": 2, "sequence": 16}, {"batch": 1, "sequence": long}, {"batch": 3, "sequence": 24}]
    made = export(Subject(_First(model), inputs, axes, cases), exporter)
    return Made(made.model, [made.cases[place] for place in (1, 0, 2)])


class _First(nn.Module):
    """The tensors of a model's output that are no cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> list[torch.Tensor]:
        found = self.model(**inputs, return_dict=True)
        return [value for value in found.values() if isinstance(value, torch.Tensor)]


class _Translator(nn.Module):
    """Logits of an encoder-decoder."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self.model(**inputs, use_cache=False, return_dict=True).logits


def translator(name: str, exporter: str) -> Made:
    """An encoder-decoder, both parts at once."""
    prefix, settings = TRANSLATORS[name]
    suffix = {"Marian": "MTModel"}.get(prefix, "ForConditionalGeneration")
    model = configured(prefix, suffix, settings)

    def inputs(batch: int, sequence: int, target: int) -> Tensors:
        mask = torch.ones(batch, sequence, dtype=torch.int64)
        mask[0, -2:] = 0
        return {"input_ids": tokens(VOCABULARY, batch, sequence), "attention_mask": mask,
                "decoder_input_ids": tokens(VOCABULARY, batch, target, seed=8)}  # fmt: skip

    axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")}
    axes["decoder_input_ids"] = {0: "batch", 1: "target"}
    cases = [{"batch": 2, "sequence": 16, "target": 5}, {"batch": 1, "sequence": 24, "target": 1},
             {"batch": 3, "sequence": 8, "target": 9}]  # fmt: skip
    return export(Subject(_Translator(model), inputs, axes, cases), exporter)
