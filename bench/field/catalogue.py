"""The names of all models of the field corpus, without importing what makes them."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from bench.field.specimen import Specimen

EXPORTERS = ("dynamo", "script")


def words(text: str) -> list[str]:
    """The names in a text."""
    return text.split()


TORCH = ("torch", "onnxscript")
TRANSFORMERS = (*TORCH, "transformers")

DECODERS = words("""llama llama-large mistral qwen2 qwen2-large qwen3 gemma gemma2 gemma3 phi phi3 gpt2 gpt2-large
gpt-neox gpt-neo gptj opt bloom falcon mpt stablelm olmo olmo2 granite cohere starcoder2 codegen biogpt mixtral
smollm3 nemotron persimmon xglm helium glm exaone4""")
ENCODERS = words("""bert bert-large bert-classifier bert-answers roberta roberta-mask xlm-roberta camembert distilbert
electra albert deberta deberta-v2 mpnet convbert squeezebert mobilebert fnet funnel modernbert nystromformer roformer
xlnet longformer big-bird layoutlm ibert esm rembert clip-text canine""")
TRANSLATORS = words("""t5 flan-t5 mt5 bart mbart pegasus marian m2m100 blenderbot led prophetnet""")

TIMM = words("""resnet18 mobilenetv3_small_100 efficientnet_b0 convnext_atto vit_tiny_patch16_224
swin_tiny_patch4_window7_224 mobilevit_xxs levit_128s nfnet_l0 edgenext_xx_small fastvit_t8 coat_lite_tiny""")
TIMM_SCRIPT = words("""resnet50 resnet26d resnext26ts seresnext26d_32x4d res2net50_26w_4s mobilenetv2_100
mobilenetv3_large_100 mobilenetv4_conv_small tf_efficientnet_b0 efficientnetv2_rw_t mnasnet_100 ghostnet_100
ghostnetv2_100 mixnet_s densenet121 inception_v3 xception41 hrnet_w18_small regnety_002 repvgg_a0 mobileone_s0
dm_nfnet_f0 resnetv2_50x1_bit convnextv2_atto inception_next_atto efficientformerv2_s0 efficientvit_b0 repvit_m0_9
poolformer_s12 starnet_s1 hgnetv2_b0 tiny_vit_5m_224 beit_base_patch16_224 eva02_tiny_patch14_224 xcit_nano_12_p16_224
cait_xxs24_224 crossvit_tiny_240 convit_tiny swinv2_tiny_window8_256 maxvit_pico_rw_256 mvitv2_tiny twins_svt_small
pvt_v2_b0 mixer_s16_224 gmlp_ti16_224 caformer_s18 cspdarknet53 skresnet18 halonet26t lambda_resnet26t botnet26t_256
sequencer2d_s""")
PICTURES = words("""hf-vit hf-deit hf-beit hf-dinov2 hf-dinov3 hf-swin hf-swinv2 hf-swin2sr hf-convnext hf-resnet
hf-regnet hf-segformer hf-segformer-large hf-mobilevit hf-mobilenet-v1 hf-mobilenet-v2 hf-levit hf-poolformer hf-pvt
hf-cvt hf-bit hf-focalnet hf-efficientnet hf-glpn hf-dpt hf-yolos hf-upernet hf-clip hf-siglip hf-vit-mae
hf-superpoint hf-hiera""")

WAVES = words("""wav2vec2 wav2vec2-stable wav2vec2-adapter hubert wavlm unispeech sew sew-d data2vec-audio conformer
conformer-rotary encodec univnet""")
SPEECH = words(
    """whisper_encoder whisper_decoder speech_to_text audio_spectrogram clap_audio vits fastspeech hifigan"""
)
SOUNDS = words(
    """spectrogram spectrogram-valid log-mel mfcc conv-spectrum keywords resampler wavenet separator istft"""
)

NETWORKS = words("""shufflenet deeplab lr-aspp unet pyramid standardised inception-mixer fast-embedding cross-covariance
spatial-transformer super-resolution style generator diffusion graph points lstm-tagger gru-tagger text-line temporal
patches recommender bags translator experts selective-scan video policy flow""")

ESTIMATORS = words("""logistic ridge sgd svc svr linear-svc tree forest forest-regressor extra-trees gradient
gradient-regressor histogram adaboost bagging voting stacking isolation neighbours neighbours-regressor bayes
perceptron perceptron-regressor pca kmeans mixture discriminant quadratic polynomial power bins robust
gaussian-process partial-squares""")
CLASSICAL = ("skl2onnx", "sklearn")
BOOSTED = ("classifier", "binary", "regressor", "large")
RUNTIME = (*TRANSFORMERS, "onnxruntime")
# Which models are quantised, made half precision and optimised: the source, then what is done to it.
OPTIMISED = ("bert", "gpt2", "resnet18", "mobilenetv2_100", "deeplab", "lstm-tagger", "unet")
CONVERTED = {
    "optimised": [(f"{name}.script", level) for name in OPTIMISED for level in ("basic", "extended", "all")],
    "half": [
        ("bert.script", "inner"), ("bert.dynamo", "whole"), ("llama.script", "whole"), ("resnet18.script", "whole"),
        ("mobilenetv3_small_100.script", "inner"), ("mobilenetv2_100.script", "whole"), ("t5.script", "inner"),
        ("vit_tiny_patch16_224.script", "whole"), ("lstm-tagger.script", "inner"), ("unet.script", "whole"),
    ],
    "dynamic": [
        ("bert.script", "int8"), ("bert.dynamo", "uint8"), ("gpt2.script", "int8"), ("llama.script", "channels"),
        ("distilbert.script", "int8"), ("t5.script", "int8"), ("whisper-encoder.script", "int8"),
        ("lstm-tagger.script", "int8"), ("resnet18.script", "uint8"), ("bert-large.script", "int8"),
    ],
    "static": [
        ("resnet18.script", "qdq"), ("resnet18.script", "operators"), ("resnet18.script", "channels"),
        ("mobilenetv2_100.script", "qdq"), ("mobilenetv2_100.script", "operators"), ("recommender.script", "qdq"),
        ("efficientnet_b0.script", "channels"), ("unet.script", "qdq"), ("bert.script", "qdq"),
        ("vit_tiny_patch16_224.script", "channels"), ("shufflenet.script", "operators"),
    ],
    "blocks": [("llama.script",), ("qwen2.dynamo",), ("bert.script",)],
    "fused": [
        ("bert.script", "bert"), ("gpt2.script", "gpt2"), ("roberta.script", "bert"), ("t5.script", "t5"),
        ("bart.script", "bart"),
    ],
}  # fmt: skip
BENCHMARK = words("""magika silero-vad silero-vad-18 nudenet ppocr4-det ppocr4-rec ppocr2-cls ppocr6-det ppocr6-rec""")


def _exported(
    kind: str, module: str, function: str, names: Iterable[str], needs: tuple[str, ...],
    exporters: Iterable[str] = EXPORTERS,
) -> Iterator[Specimen]:  # fmt: skip
    """Each of the names through each of the exporters."""
    for name in names:
        for exporter in exporters:
            yield Specimen(
                f"{name}.{exporter}", kind, module, function, (name, exporter), needs, name.endswith("-large")
            )


def _single(kind: str, module: str, functions: Iterable[str], needs: tuple[str, ...]) -> Iterator[Specimen]:
    """Functions that are given the exporter alone."""
    for function in functions:
        for exporter in EXPORTERS:
            yield Specimen(f"{function.replace('_', '-')}.{exporter}", kind, module, function, (exporter,), needs)


def _classical() -> Iterator[Specimen]:
    """Pipelines of scikit-learn and boosted trees."""
    for name in ESTIMATORS:
        yield Specimen(f"sklearn.{name}", "sklearn", "classical", "sklearn_pipeline", (name,), CLASSICAL)
    for name in ("logistic", "forest", "perceptron", "neighbours", "svc"):
        yield Specimen(f"sklearn.{name}.array", "sklearn", "classical", "sklearn_pipeline", (name, "array"), CLASSICAL)
    for name in ("logistic", "perceptron-regressor"):
        arguments = (name, "map", "float64")
        yield Specimen(f"sklearn.{name}.float64", "sklearn", "classical", "sklearn_pipeline", arguments, CLASSICAL)
    for output in ("map", "array"):
        yield Specimen(f"sklearn.words.{output}", "sklearn", "classical", "string_labels", (output,), CLASSICAL)
    for kind in ("one-hot", "ordinal"):
        yield Specimen(f"sklearn.{kind}", "sklearn", "classical", "encoded_columns", (kind,), CLASSICAL)
    yield Specimen("sklearn.columns", "sklearn", "classical", "columns", (), (*CLASSICAL, "pandas"))
    for kind in ("tfidf", "bigrams", "counts", "characters", "stop-words"):
        yield Specimen(f"text.{kind}", "sklearn", "classical", "text", (kind,), CLASSICAL)
    for library in ("lightgbm", "xgboost"):
        for task in BOOSTED:
            kind = f"{library}-{task}"
            yield Specimen(kind, "boosted", "classical", "boosted", (kind,), ("onnxmltools", library))


def _operators() -> Iterator[Specimen]:
    """Models around single operators."""
    for count in ("1", "4", "8"):
        yield Specimen(f"columns.{count}", "network", "operators", "columns", (count,), ("onnxruntime",))
    for bits in ("32", "8", "4"):
        kind = "network" if bits == "32" else "quantised"
        yield Specimen(f"mixture.{bits}", kind, "operators", "mixture", (bits,), ("onnxruntime",))
    yield Specimen("blocks.level-4", "quantised", "operators", "bytes_level", (), ("onnxruntime",))


def _all() -> Iterator[Specimen]:
    yield from _exported("llm", "language", "decoder", DECODERS, TRANSFORMERS)
    yield from _exported("encoder", "language", "encoder", ENCODERS, TRANSFORMERS)
    yield from _exported("encoder-decoder", "language", "translator", TRANSLATORS, TRANSFORMERS)
    yield from _exported("vision", "vision", "timm_network", TIMM, (*TRANSFORMERS, "timm"))
    yield from _exported("vision", "vision", "timm_network", TIMM_SCRIPT, (*TRANSFORMERS, "timm"), ("script",))
    yield from _exported("vision", "vision", "transformers_network", PICTURES, TRANSFORMERS)
    yield from _exported("detection", "vision", "detr", ("detr", "rt-detr"), TRANSFORMERS)
    yield from _single("vision", "vision", ("depth_anything", "clip"), TRANSFORMERS)
    yield from _exported("speech", "speech", "waves", WAVES, TRANSFORMERS)
    yield from _single("speech", "speech", SPEECH, TRANSFORMERS)
    yield from _exported("speech", "sound", "sound", SOUNDS, TORCH)
    yield from _exported("network", "architectures", "network", NETWORKS, TORCH)
    yield from _operators()
    yield from _classical()
    for function, rows in CONVERTED.items():
        kind = {"optimised": "optimised", "fused": "optimised", "half": "float16"}.get(function, "quantised")
        for source, *how in rows:
            name = ".".join([function, source, *how])
            yield Specimen(name, kind, "converted", function, (source, *how), RUNTIME, source.endswith("-large.script"))
    for name in BENCHMARK:
        yield Specimen(name, "wheel", "packaged", "benchmark", (name,), ("onnxruntime",), is_large=True)


SPECIMENS = list(_all())


def by_name(name: str) -> Specimen:
    """The one of that name; raises ValueError if there is none."""
    for specimen in SPECIMENS:
        if specimen.name == name:
            return specimen
    raise ValueError(f"no model of the field corpus is called {name}; --list shows them")


def select(patterns: list[str]) -> list[Specimen]:
    """Those whose name or kind matches any pattern; all of them if there is none."""
    if not patterns:
        return SPECIMENS
    found = [s for s in SPECIMENS if any(fnmatchcase(s.name, p) or s.kind == p for p in patterns)]
    if not found:
        raise ValueError(f"no model of the field corpus is called {' or '.join(patterns)}; --list shows them")
    return found
