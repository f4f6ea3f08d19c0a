"""Networks for pictures: those of timm, and those of transformers, with random weights."""

import importlib
import importlib.util
import sys
import types
from typing import Any

import torch
from torch import nn

from bench.field.exporting import Subject, Tensors, export, picture, tokens
from bench.field.language import _First
from bench.field.specimen import Made, NotExported

transformers: Any = importlib.import_module("transformers")
"""Without its types: configurations take more settings than they declare."""

# The side of the picture, and settings.
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet18": (128, {}), "resnet50": (224, {}), "resnet26d": (96, {}), "resnext26ts": (96, {}),
    "seresnext26d_32x4d": (96, {}), "res2net50_26w_4s": (64, {}), "mobilenetv2_100": (224, {}),
    "mobilenetv3_small_100": (224, {}), "mobilenetv3_large_100": (96, {}), "mobilenetv4_conv_small": (96, {}),
    "efficientnet_b0": (224, {}), "tf_efficientnet_b0": (96, {}), "efficientnetv2_rw_t": (64, {}),
    "mnasnet_100": (96, {}), "ghostnet_100": (96, {}), "ghostnetv2_100": (96, {}), "mixnet_s": (96, {}),
    "densenet121": (96, {}), "inception_v3": (128, {}), "xception41": (96, {}), "hrnet_w18_small": (96, {}),
    "regnety_002": (224, {}), "repvgg_a0": (96, {}), "mobileone_s0": (224, {}), "nfnet_l0": (96, {}),
    "dm_nfnet_f0": (64, {}), "resnetv2_50x1_bit": (64, {}), "convnext_atto": (224, {}), "convnextv2_atto": (96, {}),
    "inception_next_atto": (224, {}), "edgenext_xx_small": (96, {}), "fastvit_t8": (256, {}),
    "efficientformerv2_s0": (224, {}), "efficientvit_b0": (96, {}), "repvit_m0_9": (96, {}),
    "mobilevit_xxs": (256, {}), "poolformer_s12": (96, {}), "starnet_s1": (96, {}), "hgnetv2_b0": (96, {}),
    "tiny_vit_5m_224": (224, {}), "vit_tiny_patch16_224": (224, {}), "beit_base_patch16_224": (224, {"depth": 2}),
    "eva02_tiny_patch14_224": (224, {"depth": 4}), "xcit_nano_12_p16_224": (224, {}),
    "cait_xxs24_224": (224, {"depth": 4}), "crossvit_tiny_240": (240, {}), "levit_128s": (224, {}),
    "coat_lite_tiny": (224, {}), "convit_tiny": (224, {"depth": 4}),
    "swin_tiny_patch4_window7_224": (224, {"depths": (1, 1, 2, 1)}),
    "swinv2_tiny_window8_256": (256, {"depths": (1, 1, 2, 1)}), "maxvit_pico_rw_256": (256, {"depths": (1, 1, 1, 1)}),
    "mvitv2_tiny": (224, {"depths": (1, 1, 1, 1)}), "twins_svt_small": (224, {"depths": (1, 1, 2, 1)}),
    "pvt_v2_b0": (96, {}), "mixer_s16_224": (224, {"num_blocks": 2}), "gmlp_ti16_224": (224, {"num_blocks": 2}),
    "caformer_s18": (96, {"depths": (1, 1, 2, 1)}), "cspdarknet53": (64, {}), "skresnet18": (96, {}),
    "halonet26t": (256, {}), "lambda_resnet26t": (128, {}), "botnet26t_256": (256, {}),
    "sequencer2d_s": (224, {"layers": (1, 1, 2, 1)}),
}  # fmt: skip

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
# The prefix of the classes, the suffix of the model's, the side, whether height and width are open, and settings.
TRANSFORMERS: dict[str, tuple[str, str, int, bool, dict[str, Any]]] = {
    "hf-vit": ("ViT", "ForImageClassification", 32, False, {**SMALL, "image_size": 32, "patch_size": 8}),
    "hf-deit": ("DeiT", "ForImageClassificationWithTeacher", 32, False, {**SMALL, "image_size": 32, "patch_size": 8}),
    "hf-beit": ("Beit", "ForImageClassification", 32, False, {**SMALL, "image_size": 32, "patch_size": 8,
                                                               "use_relative_position_bias": True}),
    "hf-dinov2": ("Dinov2", "Model", 56, True, {**SMALL, "image_size": 56, "patch_size": 14, "mlp_ratio": 2}),
    "hf-dinov3": ("DINOv3ViT", "Model", 64, True, {**SMALL, "image_size": 64, "patch_size": 16}),
    "hf-swin": ("Swin", "Model", 64, True, {"image_size": 64, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
                                            "window_size": 4, "patch_size": 4}),
    "hf-swinv2": ("Swinv2", "Model", 64, True, {"image_size": 64, "embed_dim": 16, "depths": [1, 1],
                                                "num_heads": [2, 2], "window_size": 4}),
    "hf-swin2sr": ("Swin2SR", "ForImageSuperResolution", 32, True, {"image_size": 32, "embed_dim": 16,
                   "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "upscale": 2}),
    "hf-convnext": ("ConvNext", "Model", 64, True, {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1]}),
    "hf-resnet": ("ResNet", "Model", 64, True, {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 64],
                                                "depths": [1, 1, 1, 1]}),
    "hf-regnet": ("RegNet", "Model", 64, True, {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 64],
                                                "depths": [1, 1, 1, 1], "groups_width": 8}),
    "hf-segformer": ("Segformer", "ForSemanticSegmentation", 64, True, {"hidden_sizes": [16, 32, 32, 32],
                     "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2], "decoder_hidden_size": 32}),
    "hf-segformer-large": ("Segformer", "ForSemanticSegmentation", 256, True, {"num_labels": 150}),
    "hf-mobilevit": ("MobileViT", "ForSemanticSegmentation", 64, False, {"image_size": 64,
                     "hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 16],
                     "aspp_out_channels": 16, "atrous_rates": [6, 12, 18]}),
    "hf-mobilenet-v1": ("MobileNetV1", "Model", 64, True, {"depth_multiplier": 0.25}),
    "hf-mobilenet-v2": ("MobileNetV2", "ForSemanticSegmentation", 64, True, {"depth_multiplier": 0.35}),
    "hf-levit": ("Levit", "ForImageClassification", 64, False, {"image_size": 64, "hidden_sizes": [16, 32, 32],
                 "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8]}),
    "hf-poolformer": ("PoolFormer", "Model", 64, True, {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]}),
    "hf-pvt": ("Pvt", "Model", 64, False, {"image_size": 64, "hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1],
               "num_attention_heads": [1, 2, 2, 2]}),
    "hf-cvt": ("Cvt", "Model", 64, True, {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 2], "depth": [1, 1, 1]}),
    "hf-bit": ("Bit", "Model", 64, True, {"embedding_size": 16, "hidden_sizes": [32, 64, 64, 64],
                                          "depths": [1, 1, 1, 1], "num_groups": 4}),
    "hf-focalnet": ("FocalNet", "Model", 64, True, {"image_size": 64, "embed_dim": 16, "depths": [1, 1, 1, 1]}),
    "hf-efficientnet": ("EfficientNet", "Model", 64, True, {"width_coefficient": 0.25, "depth_coefficient": 0.25,
                                                            "hidden_dim": 64}),
    "hf-glpn": ("GLPN", "ForDepthEstimation", 64, True, {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1],
                "num_attention_heads": [1, 2, 2, 2], "decoder_hidden_size": 16}),
    "hf-dpt": ("DPT", "ForDepthEstimation", 64, False, {**SMALL, "num_hidden_layers": 4, "image_size": 64,
               "patch_size": 16, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 16, 16, 16],
               "fusion_hidden_size": 16}),
    "hf-yolos": ("Yolos", "ForObjectDetection", 64, True, {**SMALL, "image_size": [64, 64],
                                                            "num_detection_tokens": 10}),
    "hf-upernet": ("UperNet", "ForSemanticSegmentation", 64, True, {"hidden_size": 16}),
    "hf-clip": ("CLIPVision", "Model", 32, False, {**SMALL, "image_size": 32, "patch_size": 8}),
    "hf-siglip": ("SiglipVision", "Model", 32, False, {**SMALL, "image_size": 32, "patch_size": 8}),
    "hf-vit-mae": ("ViTMAE", "Model", 32, False, {**SMALL, "image_size": 32, "patch_size": 8, "mask_ratio": 0.0}),
    "hf-superpoint": ("SuperPoint", "ForKeypointDetection", 64, True, {}),
    "hf-hiera": ("Hiera", "Model", 64, False, {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 1, 1],
                                               "num_heads": [1, 1, 2, 2]}),
}  # fmt: skip


def _import_timm() -> Any:
    """timm, which imports transforms of torchvision that we never call: empty modules stand in for them."""
    if "timm" in sys.modules or importlib.util.find_spec("torchvision"):
        import timm

        return timm

    class Empty(types.ModuleType):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.__path__ = []

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (nn.Module,), {"NEAREST": 0, "BILINEAR": 2, "BICUBIC": 3, "BOX": 4, "HAMMING": 5,
                                             "LANCZOS": 1})  # fmt: skip

    names = ["torchvision", "torchvision.ops", "torchvision.ops.misc", "torchvision.transforms", "torchvision.datasets",
             "torchvision.transforms.functional", "torchvision.models", "torchvision.models.feature_extraction",
             "torchvision.utils"]  # fmt: skip
    for name in names:
        sys.modules[name] = Empty(name)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
    try:
        import timm
    finally:
        for name in names:
            del sys.modules[name]
    return timm


def timm_network(name: str, exporter: str) -> Made:
    """A classifier of timm, with an open batch, and open height and width where it takes any."""
    timm = _import_timm()
    torch.manual_seed(0)
    side, settings = TIMM[name]
    for attempt in (settings, {}):
        try:
            model = timm.create_model(name, pretrained=False, num_classes=100, **attempt)
            break
        except TypeError:
            continue
    return _pictures("x", _Plain(model), side, _takes_any_side(model, side), exporter)


class _Plain(nn.Module):
    """Takes its picture as `x`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x)


def _takes_any_side(model: nn.Module, side: int) -> bool:
    with torch.no_grad():
        try:
            model.eval()(torch.zeros(1, 3, side + 32, side))
        except Exception:  # a network of one size says so in its own way
            return False
    return True


def _pictures(name: str, module: nn.Module, side: int, is_open: bool, exporter: str) -> Made:
    def inputs(batch: int, height: int = side, width: int = side) -> Tensors:
        return {name: picture(batch, height, width)}

    axes = {name: {0: "batch", 2: "height", 3: "width"} if is_open else {0: "batch"}}
    cases = [{"batch": 2}, {"batch": 1}, {"batch": 3}]
    if is_open:
        cases = [{"batch": 2, "height": side + 32, "width": side}, {"batch": 1, "height": side, "width": side},
                 {"batch": 1, "height": side, "width": side + 64}]  # fmt: skip
    made = export(Subject(module, inputs, axes, cases), exporter)
    return Made(made.model, [made.cases[place] for place in (1, 0, 2)])


def transformers_network(name: str, exporter: str) -> Made:
    """A network of transformers that takes a picture."""
    prefix, suffix, side, is_open, settings = TRANSFORMERS[name]
    torch.manual_seed(0)
    kind = getattr(transformers, f"{prefix}{suffix}")
    if prefix == "UperNet":
        settings = {**settings, "backbone_config": transformers.ConvNextConfig(
            hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]),
            "auxiliary_in_channels": 32, "use_auxiliary_head": False}  # fmt: skip
    config = kind.config_class(**settings)
    config._attn_implementation = "eager"
    return _pictures("pixel_values", _First(kind(config).eval()), side, is_open, exporter)


def depth_anything(exporter: str) -> Made:
    """Depth Anything on a small DINOv2."""
    backbone = transformers.Dinov2Config(
        **SMALL,
        mlp_ratio=2,
        image_size=56,
        patch_size=14,
        out_features=["stage1", "stage2"],
        reshape_hidden_states=False,
    )
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone, patch_size=14, reassemble_hidden_size=32, neck_hidden_sizes=[8, 16],
        reassemble_factors=[2, 1], fusion_hidden_size=16, head_hidden_size=8,
    )  # fmt: skip
    config._attn_implementation = backbone._attn_implementation = "eager"
    model = transformers.DepthAnythingForDepthEstimation(config).eval()

    def inputs(batch: int, height: int, width: int) -> Tensors:
        return {"pixel_values": picture(batch, height, width)}

    axes = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    cases = [{"batch": 2, "height": 70, "width": 56}, {"batch": 1, "height": 56, "width": 56},
             {"batch": 1, "height": 56, "width": 112}]  # fmt: skip
    return export(Subject(_First(model), inputs, axes, cases), exporter)


def detr(name: str, exporter: str) -> Made:
    """Detectors that query a picture."""
    if name == "detr":
        backbone = transformers.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], out_features=["stage4"]
        )
        config = transformers.DetrConfig(
            use_timm_backbone=False, backbone_config=backbone, backbone=None, use_pretrained_backbone=False, d_model=32,
            encoder_layers=2, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64, encoder_attention_heads=4,
            decoder_attention_heads=4, num_queries=10,
        )  # fmt: skip
        model = transformers.DetrForObjectDetection
    elif name == "rt-detr":
        config = transformers.RTDetrConfig(
            d_model=32, encoder_hidden_dim=32, encoder_in_channels=[32, 32, 64], feat_strides=[8, 16, 32],
            encoder_ffn_dim=64, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, num_queries=20, decoder_layers=2,
            encoder_attention_heads=4, decoder_attention_heads=4, num_denoising=0,
            backbone_config=transformers.RTDetrResNetConfig(
                embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1],
                out_features=["stage2", "stage3", "stage4"], layer_type="basic"),
        )  # fmt: skip
        model = transformers.RTDetrForObjectDetection
    else:
        raise NotExported(f"no detector is called {name}")
    config._attn_implementation = "eager"

    def inputs(batch: int, height: int, width: int) -> Tensors:
        return {"pixel_values": picture(batch, height, width)}

    axes = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    cases = [{"batch": 2, "height": 96, "width": 64}, {"batch": 1, "height": 64, "width": 64},
             {"batch": 1, "height": 64, "width": 128}]  # fmt: skip
    return export(Subject(_First(model(config).eval()), inputs, axes, cases), exporter)


class _Pair(nn.Module):
    """What CLIP says of pictures and texts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> list[torch.Tensor]:
        found = self.model(**inputs, return_dict=True)
        return [found.logits_per_image, found.text_embeds, found.image_embeds]


def clip(exporter: str) -> Made:
    """CLIP, both towers."""
    text = {"vocab_size": 500, **SMALL, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**SMALL, "image_size": 32, "patch_size": 8}, projection_dim=32
    )
    config._attn_implementation = config.text_config._attn_implementation = "eager"
    config.vision_config._attn_implementation = "eager"
    model = transformers.CLIPModel(config).eval()

    def inputs(texts: int, sequence: int, pictures: int) -> Tensors:
        return {"input_ids": tokens(500, texts, sequence), "pixel_values": picture(pictures, 32, 32),
                "attention_mask": torch.ones(texts, sequence, dtype=torch.int64)}  # fmt: skip

    axes = {"input_ids": {0: "texts", 1: "sequence"}, "pixel_values": {0: "pictures"},
            "attention_mask": {0: "texts", 1: "sequence"}}  # fmt: skip
    cases = [{"texts": 3, "sequence": 7, "pictures": 2}, {"texts": 2, "sequence": 12, "pictures": 1},
             {"texts": 1, "sequence": 5, "pictures": 3}]  # fmt: skip
    return export(Subject(_Pair(model), inputs, axes, cases), exporter)
