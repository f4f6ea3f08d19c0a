"""Small models with the inputs and outputs that libraries expect of the models which they would download."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "intaglio", "cuts", "models", "into", "copper", "a", "plate", "prints")
HIDDEN = 8
Size = int | str


def _random(seed: int, *shape: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.3).astype(np.float32)


def _model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Size]]],
    outputs: Mapping[str, Sequence[Size]],
    weights: Mapping[str, np.ndarray],
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, kind, list(shape)) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions(path: Path, size: int, features: int) -> None:
    """Images to vectors, as recognition of faces has it: [n, 3, size, size] to [n, features]."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[4, 4], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    weights = {"w": _random(1, 16, 3, 3, 3), "v": _random(2, 16, features)}
    save(_model(nodes, {"x": (TensorProto.FLOAT, ["n", 3, size, size])}, {"y": ["n", features]}, weights), path)


def detector(path: Path) -> None:
    """Scores, boxes and points of faces at three strides with two anchors a place, as SCRFD has them."""
    nodes, outputs, weights = [], dict[str, Sequence[Size]](), dict[str, np.ndarray]()
    for seed, stride in enumerate((8, 16, 32)):
        weights[f"w{stride}"] = _random(seed, 30, 3, stride, stride)
        nodes += [
            helper.make_node("Conv", ["x", f"w{stride}"], [f"c{stride}"], strides=[stride, stride]),
            helper.make_node("Transpose", [f"c{stride}"], [f"t{stride}"], perm=[0, 2, 3, 1]),
            helper.make_node("Reshape", [f"t{stride}", "shape"], [f"r{stride}"]),
            helper.make_node("Split", [f"r{stride}", "sizes"], [f"{kind}{stride}" for kind in ("l", "box", "points")],
                             axis=1),
            helper.make_node("Sigmoid", [f"l{stride}"], [f"score{stride}"]),
        ]  # fmt: skip
    for kind, width in (("score", 1), ("box", 4), ("points", 10)):
        outputs |= {f"{kind}{stride}": [f"n{stride}", width] for stride in (8, 16, 32)}
    weights |= {"shape": np.array([-1, 15]), "sizes": np.array([1, 4, 10])}
    save(_model(nodes, {"x": (TensorProto.FLOAT, [1, 3, "h", "w"])}, outputs, weights), path)


def page_map(path: Path) -> None:
    """Pages to a map of where text is: [n, 3, h, w] to [n, 1, h, w]; dark places are text."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=1),
        helper.make_node("AveragePool", ["m"], ["p"], kernel_shape=[9, 9], pads=[4, 4, 4, 4], strides=[1, 1]),
        helper.make_node("Mul", ["p", "scale"], ["logits"]),
    ]
    weights = {"scale": np.array(-20, np.float32)}
    given = {"x": (TensorProto.FLOAT, ["n", 3, 256, 256])}
    save(_model(nodes, given, {"logits": ["n", 1, 256, 256]}, weights), path)


def letters(path: Path, classes: int) -> None:
    """Words to rows of logits: [n, 3, 32, 128] to [n, 32, classes]."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[32, 4]),
        helper.make_node("Squeeze", ["c", "axis"], ["s"]),
        helper.make_node("Transpose", ["s"], ["logits"], perm=[0, 2, 1]),
    ]
    weights = {"w": _random(5, classes, 3, 32, 4), "axis": np.array([2])}
    given = {"x": (TensorProto.FLOAT, ["n", 3, 32, 128])}
    save(_model(nodes, given, {"logits": ["n", 32, classes]}, weights), path)


def tokenizer(folder: Path) -> None:
    """The files of a tokenizer that knows a few words."""
    ids = {word: number for number, word in enumerate(WORDS)}
    template = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]  # fmt: skip
    special = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    whole = {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[name], "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False}
            for name in WORDS[:4]
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", "single": template, "pair": template,
                           "special_tokens": special},
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
    }  # fmt: skip
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    files: dict[str, Any] = {
        "tokenizer.json": whole,
        "tokenizer_config.json": {"model_max_length": 64, "max_length": 64, **names},
        "special_tokens_map.json": names,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


_TEXT = {name: (TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask", "token_type_ids")}


def _embed(mask: str) -> list[NodeProto]:
    """Words to vectors, those that are padding to zeros."""
    return [
        helper.make_node("Gather", ["words", "input_ids"], ["e0"]),
        helper.make_node("Gather", ["kinds", "token_type_ids"], ["e1"]),
        helper.make_node("Add", ["e0", "e1"], ["e"]),
        helper.make_node("Cast", ["attention_mask"], ["m0"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m0", "last"], ["m"]),
        helper.make_node("Mul", ["e", "m"], [mask]),
    ]


def encoder(folder: Path) -> None:
    """A model of text that gives a vector for each word, with its tokenizer."""
    nodes = [
        *_embed("masked"),
        helper.make_node("MatMul", ["masked", "v"], ["z"]),
        helper.make_node("Tanh", ["z"], ["last_hidden_state"]),
    ]
    weights = {"words": _random(1, len(WORDS), HIDDEN), "kinds": _random(2, 2, HIDDEN), "v": _random(3, HIDDEN, HIDDEN),
               "last": np.array([-1])}  # fmt: skip
    model = _model(nodes, _TEXT, {"last_hidden_state": ["batch", "length", HIDDEN]}, weights)
    save(model, folder / "model.onnx")
    tokenizer(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "pad_token_id": 0}))


def classifier(folder: Path) -> None:
    """A model of text that gives logits of three classes, as optimum loads it."""
    nodes = [
        *_embed("masked"),
        helper.make_node("ReduceSum", ["masked", "middle"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["sum", "v"], ["logits"]),
    ]
    weights = {"words": _random(1, len(WORDS), HIDDEN), "kinds": _random(2, 2, HIDDEN), "v": _random(3, HIDDEN, 3),
               "last": np.array([-1]), "middle": np.array([1])}  # fmt: skip
    save(_model(nodes, _TEXT, {"logits": ["batch", 3]}, weights), folder / "model.onnx")
    tokenizer(folder)
    settings = {"model_type": "bert", "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": 1,
                "num_attention_heads": 1, "id2label": {"0": "a", "1": "b", "2": "c"},
                "label2id": {"a": 0, "b": 1, "c": 2}, "architectures": ["BertForSequenceClassification"]}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))


def decoder(folder: Path) -> None:
    """A model of the next word with a cache of one layer and two heads, as optimum loads it."""
    heads, width = 2, HIDDEN // 2
    shape = {"shape": np.array([0, 0, heads, width])}
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["e"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=1),
    ]
    for kind in ("key", "value"):
        nodes += [
            helper.make_node("MatMul", ["e", f"w_{kind}"], [f"{kind}0"]),
            helper.make_node("Reshape", [f"{kind}0", "shape"], [f"{kind}1"]),
            helper.make_node("Transpose", [f"{kind}1"], [f"{kind}2"], perm=[0, 2, 1, 3]),
            helper.make_node("Concat", [f"past_key_values.0.{kind}", f"{kind}2"], [f"present.0.{kind}"], axis=2),
            helper.make_node("ReduceSum", [f"present.0.{kind}", "two"], [f"{kind}_sum"], keepdims=0),
            helper.make_node("Flatten", [f"{kind}_sum"], [f"{kind}_flat"]),
        ]
    nodes += [
        helper.make_node("Mul", ["key_flat", "value_flat"], ["both"]),
        helper.make_node("Div", ["both", "count"], ["mean"]),
        helper.make_node("Unsqueeze", ["mean", "one"], ["context"]),
        helper.make_node("Add", ["e", "context"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["logits"]),
    ]
    weights = {"words": _random(1, len(WORDS), HIDDEN), "v": _random(3, HIDDEN, len(WORDS)), "one": np.array([1]),
               "two": np.array([2]), "w_key": _random(4, HIDDEN, HIDDEN),
               "w_value": _random(5, HIDDEN, HIDDEN)}  # fmt: skip
    past = {
        f"past_key_values.0.{kind}": (TensorProto.FLOAT, ["batch", heads, "past", width]) for kind in ("key", "value")
    }
    given = {
        "input_ids": (TensorProto.INT64, ["batch", "length"]),
        "attention_mask": (TensorProto.INT64, ["batch", "all"]),
    }
    found = {"logits": ["batch", "length", len(WORDS)]}
    found |= {f"present.0.{kind}": ["batch", heads, "all", width] for kind in ("key", "value")}
    save(_model(nodes, given | past, found, weights | shape), folder / "model.onnx")
    settings = {"model_type": "gpt2", "vocab_size": len(WORDS), "n_embd": HIDDEN, "n_layer": 1, "n_head": heads,
                "n_positions": 64, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0,
                "architectures": ["GPT2LMHeadModel"]}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    tokenizer(folder)
