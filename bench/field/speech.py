"""Speech and sound: encoders of transformers, front ends with a Fourier transform, codecs, voices."""

from typing import Any

import torch
import transformers
from torch import nn

from bench.field.exporting import Subject, Tensors, export, normal, tokens
from bench.field.language import ENDS, _First
from bench.field.specimen import Made

ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WAVES = {**ENCODER, "conv_dim": [16, 16, 16], "conv_kernel": [10, 3, 3], "conv_stride": [5, 2, 2],
         "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
         "vocab_size": 32}  # fmt: skip
# The prefix of the classes, the suffix of the model's, settings.
WAVE_MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "wav2vec2": ("Wav2Vec2", "ForCTC", WAVES),
    "wav2vec2-stable": ("Wav2Vec2", "ForCTC", {**WAVES, "feat_extract_norm": "layer", "do_stable_layer_norm": True}),
    "wav2vec2-adapter": ("Wav2Vec2", "Model", {**WAVES, "add_adapter": True, "num_adapter_layers": 2}),
    "hubert": ("Hubert", "ForCTC", WAVES),
    "wavlm": ("WavLM", "ForCTC", {**WAVES, "num_buckets": 32, "max_bucket_distance": 80}),
    "unispeech": ("UniSpeech", "Model", WAVES),
    "sew": ("SEW", "ForCTC", {**WAVES, "squeeze_factor": 2}),
    "sew-d": ("SEWD", "ForCTC", {**WAVES, "squeeze_factor": 2}),
    "data2vec-audio": ("Data2VecAudio", "ForCTC", {**WAVES, "num_conv_pos_embeddings": 2,
                                                   "conv_pos_kernel_size": 3}),
    "conformer": ("Wav2Vec2Conformer", "ForCTC", {**WAVES, "position_embeddings_type": "relative"}),
    "conformer-rotary": ("Wav2Vec2Conformer", "ForCTC", {**WAVES, "position_embeddings_type": "rotary"}),
    "encodec": ("Encodec", "Model", {"num_filters": 8, "hidden_size": 16, "codebook_dim": 16, "codebook_size": 64,
                                     "upsampling_ratios": [4, 2], "target_bandwidths": [24.0], "sampling_rate": 8000}),
    "univnet": ("UnivNet", "Model", {"model_hidden_channels": 8, "kernel_predictor_hidden_channels": 8}),
}  # fmt: skip
WHISPER = {"vocab_size": 200, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 20,
           "max_source_positions": 50, "max_target_positions": 30, "decoder_start_token_id": 1,
           "suppress_tokens": None, "begin_suppress_tokens": None, **ENDS}  # fmt: skip


def _model(prefix: str, suffix: str, settings: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    kind = getattr(transformers, f"{prefix}{suffix}")
    config = kind.config_class(**settings)
    config._attn_implementation = "eager"
    return kind(config).eval()


def waves(name: str, exporter: str) -> Made:
    """A model that takes samples of sound."""
    prefix, suffix, settings = WAVE_MODELS[name]
    model = _model(prefix, suffix, settings)
    if prefix == "Encodec":
        return _sound(_Codec(model), "x", exporter, (2, 1, 800), (1, 1, 1600), (3, 1, 1200))
    if prefix == "UnivNet":
        return _univnet(model, exporter)
    return _sound(_First(model), "input_values", exporter, (2, 1200), (1, 1600), (3, 900))


def _sound(module: nn.Module, name: str, exporter: str, *shapes: tuple[int, ...]) -> Made:
    rank = len(shapes[0])

    def inputs(**sizes: int) -> Tensors:
        batch, samples = sizes["batch"], sizes["samples"]
        return {name: normal(batch, *([1] * (rank - 2)), samples, scale=0.3)}

    cases = [{"batch": shape[0], "samples": shape[-1]} for shape in shapes]
    return export(Subject(module, inputs, {name: {0: "batch", rank - 1: "samples"}}, cases), exporter)


class _Codec(nn.Module):
    """Sound to codes to sound."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.model.encoder(x)
        codes = self.model.quantizer.encode(hidden, self.model.config.target_bandwidths[0])
        return self.model.decoder(self.model.quantizer.decode(codes))


def _univnet(model: Any, exporter: str) -> Made:
    def inputs(batch: int, frames: int) -> Tensors:
        channels = model.config.model_in_channels
        return {"input_features": normal(batch, frames, model.config.num_mel_bins),
                "noise_sequence": normal(batch, frames, channels, seed=8)}  # fmt: skip

    axes = {name: {0: "batch", 1: "frames"} for name in ("input_features", "noise_sequence")}
    cases = [{"batch": 2, "frames": 6}, {"batch": 1, "frames": 10}, {"batch": 1, "frames": 5}]
    return export(Subject(_First(model), inputs, axes, cases), exporter)


class _WhisperEncoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, input_features: torch.Tensor) -> torch.Tensor:
        return self.encoder(input_features, return_dict=True).last_hidden_state


class _WhisperDecoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor, **past: torch.Tensor) -> Any:
        arrays = list(past.values())
        own, cross = transformers.DynamicCache(), transformers.DynamicCache()
        for layer in range(len(arrays) // 2):
            own.update(arrays[2 * layer], arrays[2 * layer + 1], layer)
        found = self.model.model.decoder(
            input_ids=input_ids, encoder_hidden_states=encoder_hidden_states,
            past_key_values=transformers.EncoderDecoderCache(own, cross), use_cache=True, return_dict=True,
        )  # fmt: skip
        logits = self.model.proj_out(found.last_hidden_state)
        present = found.past_key_values.self_attention_cache
        return [logits, *(t for layer in present.layers for t in (layer.keys, layer.values))]


def whisper_encoder(exporter: str) -> Made:
    """Whisper's encoder over 100 frames."""
    model = _model("Whisper", "ForConditionalGeneration", WHISPER)
    axes = {"input_features": {0: "batch"}}
    subject = Subject(_WhisperEncoder(model), lambda batch: {"input_features": normal(batch, 20, 100)}, axes,
                      [{"batch": 2}, {"batch": 1}, {"batch": 3}])  # fmt: skip
    return export(subject, exporter)


def whisper_decoder(exporter: str) -> Made:
    """Whisper's decoder with its cache."""
    model = _model("Whisper", "ForConditionalGeneration", WHISPER)

    def inputs(batch: int, sequence: int, past: int) -> Tensors:
        found = {"input_ids": tokens(200, batch, sequence), "encoder_hidden_states": normal(batch, 50, 32)}
        for place in range(4):
            found[f"past.{place}"] = normal(batch, 4, past, 8, seed=place)
        return found

    axes = {"input_ids": {0: "batch", 1: "sequence"}, "encoder_hidden_states": {0: "batch"}}
    axes |= {f"past.{place}": {0: "batch", 2: "past"} for place in range(4)}
    cases = [{"batch": 2, "sequence": 3, "past": 4}, {"batch": 1, "sequence": 1, "past": 9},
             {"batch": 3, "sequence": 5, "past": 2}]  # fmt: skip
    return export(Subject(_WhisperDecoder(model), inputs, axes, cases), exporter)


class _Features(nn.Module):
    """A model over mel features, which takes its inputs by name."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> list[torch.Tensor]:
        found = self.model(**inputs, return_dict=True)
        return [value for value in found.values() if isinstance(value, torch.Tensor)]


def speech_to_text(exporter: str) -> Made:
    """Speech2Text's encoder and decoder."""
    settings = {"vocab_size": 200, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
                "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64, "input_feat_per_channel": 16, "conv_channels": 32, "max_source_positions": 100,
                "max_target_positions": 50, "decoder_start_token_id": 2, **ENDS}  # fmt: skip
    model = _model("Speech2Text", "ForConditionalGeneration", {**settings, "use_cache": False})

    def inputs(batch: int, frames: int, target: int) -> Tensors:
        return {"input_features": normal(batch, frames, 16), "decoder_input_ids": tokens(200, batch, target)}

    axes = {"input_features": {0: "batch", 1: "frames"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    cases = [{"batch": 2, "frames": 40, "target": 3}, {"batch": 1, "frames": 60, "target": 5},
             {"batch": 3, "frames": 23, "target": 1}]  # fmt: skip
    return export(Subject(_Features(model), inputs, axes, cases), exporter)


def audio_spectrogram(exporter: str) -> Made:
    """The Audio Spectrogram Transformer."""
    model = _model("AST", "ForAudioClassification", {**ENCODER, "max_length": 64, "num_mel_bins": 32, "patch_size": 8,
                                                     "frequency_stride": 6, "time_stride": 6})  # fmt: skip
    subject = Subject(_Features(model), lambda batch: {"input_values": normal(batch, 64, 32)},
                      {"input_values": {0: "batch"}}, [{"batch": 2}, {"batch": 1}, {"batch": 3}])  # fmt: skip
    return export(subject, exporter)


def clap_audio(exporter: str) -> Made:
    """CLAP's audio tower, a Swin over a spectrogram."""
    model = _model("ClapAudio", "Model", {"spec_size": 64, "num_mel_bins": 16, "hidden_size": 64, "depths": [1, 1],
                   "num_attention_heads": [2, 2], "patch_embeds_hidden_size": 32, "window_size": 4,
                   "patch_size": 4, "patch_stride": [4, 4]})  # fmt: skip
    subject = Subject(_Features(model), lambda batch: {"input_features": normal(batch, 1, 256, 16)},
                      {"input_features": {0: "batch"}}, [{"batch": 2}, {"batch": 1}, {"batch": 3}])  # fmt: skip
    return export(subject, exporter)


class _Voice(nn.Module):
    """VITS from tokens to sound, without its noise."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        model.noise_scale = model.noise_scale_duration = 0.0

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).waveform


def vits(exporter: str) -> Made:
    """A text to speech model whose output's length is found in the run."""
    settings = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32,
                "flow_size": 16, "spectrogram_bins": 9, "upsample_initial_channel": 16, "upsample_rates": [4, 2],
                "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3]],
                "duration_predictor_num_flows": 2, "duration_predictor_filter_channels": 16,
                "prior_encoder_num_flows": 2, "prior_encoder_num_wavenet_layers": 2,
                "posterior_encoder_num_wavenet_layers": 2, "use_stochastic_duration_prediction": False}  # fmt: skip
    model = _model("Vits", "Model", settings)

    def inputs(batch: int, sequence: int) -> Tensors:
        mask = torch.ones(batch, sequence, dtype=torch.int64)
        if batch > 1:
            mask[1, -2:] = 0
        return {"input_ids": tokens(40, batch, sequence), "attention_mask": mask}

    axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")}
    cases = [{"batch": 2, "sequence": 9}, {"batch": 1, "sequence": 14}, {"batch": 1, "sequence": 6}]
    return export(Subject(_Voice(model), inputs, axes, cases), exporter)


class _Frames(nn.Module):
    """FastSpeech2 from tokens to frames of a spectrogram, each token for as many frames as the model predicts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        model.duration_predictor.linear.bias.data += 1.5

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, return_dict=True).spectrogram


def fastspeech(exporter: str) -> Made:
    """A text to speech model that repeats tokens by a loop over a sequence, where TorchScript exports it."""
    settings = {"hidden_size": 32, "vocab_size": 40, "num_mel_bins": 16, "encoder_layers": 2, "decoder_layers": 2,
                "encoder_linear_units": 64, "decoder_linear_units": 64, "speech_decoder_postnet_layers": 2,
                "speech_decoder_postnet_units": 32, "decoder_kernel_size": 7, "duration_predictor_channels": 32,
                "energy_predictor_channels": 32, "pitch_predictor_channels": 32}  # fmt: skip
    model = _model("FastSpeech2Conformer", "Model", settings)
    cases = [{"sequence": 24}, {"sequence": 9}, {"sequence": 40}]
    subject = Subject(_Frames(model), lambda sequence: {"input_ids": tokens(40, 1, sequence)},
                      {"input_ids": {1: "sequence"}}, cases)  # fmt: skip
    return export(subject, exporter)


def hifigan(exporter: str) -> Made:
    """SpeechT5's vocoder."""
    model = _model("SpeechT5", "HifiGan", {"model_in_dim": 16, "upsample_initial_channel": 16,
                   "upsample_rates": [4, 2], "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3],
                   "resblock_dilation_sizes": [[1, 3, 5]]})  # fmt: skip

    def inputs(batch: int, frames: int) -> Tensors:
        return {"spectrogram": normal(batch, frames, 16)}

    cases = [{"batch": 2, "frames": 10}, {"batch": 1, "frames": 25}, {"batch": 3, "frames": 7}]
    return export(Subject(model, inputs, {"spectrogram": {0: "batch", 1: "frames"}}, cases), exporter)
