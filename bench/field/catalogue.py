"""The names of all models of the field corpus, without importing what makes them."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from bench.field.specimen import Specimen

EXPORTERS = ("dynamo", "script")
TORCH = ("torch", "onnxscript")
TRANSFORMERS = (*TORCH, "transformers")

DECODERS = """llama llama-large mistral qwen2 qwen2-large qwen3 gemma gemma2 gemma3 phi phi3 gpt2 gpt2-large gpt-neox
gpt-neo gptj opt bloom falcon mpt stablelm olmo olmo2 granite cohere starcoder2 codegen biogpt mixtral smollm3 nemotron
persimmon xglm helium glm exaone4""".split()
ENCODERS = """bert bert-large bert-classifier bert-answers roberta roberta-mask xlm-roberta camembert distilbert electra
albert deberta deberta-v2 mpnet convbert squeezebert mobilebert fnet funnel modernbert nystromformer roformer xlnet
longformer big-bird layoutlm ibert esm rembert clip-text canine""".split()
TRANSLATORS = "t5 flan-t5 mt5 bart mbart pegasus marian m2m100 blenderbot led prophetnet".split()


def _exported(kind: str, module: str, function: str, names: Iterable[str], needs: tuple[str, ...]) -> Iterator[Specimen]:
    for name in names:
        for exporter in EXPORTERS:
            yield Specimen(
                f"{name}.{exporter}", kind, module, function, (name, exporter), needs, name.endswith("-large")
            )


def _all() -> Iterator[Specimen]:
    yield from _exported("llm", "language", "decoder", DECODERS, TRANSFORMERS)
    yield from _exported("encoder", "language", "encoder", ENCODERS, TRANSFORMERS)
    yield from _exported("encoder-decoder", "language", "translator", TRANSLATORS, TRANSFORMERS)


SPECIMENS = list(_all())


def by_name(name: str) -> Specimen:
    """The one of that name."""
    return next(specimen for specimen in SPECIMENS if specimen.name == name)


def select(patterns: list[str]) -> list[Specimen]:
    """Those whose name or kind matches any pattern; all of them if there is none."""
    if not patterns:
        return SPECIMENS
    found = [s for s in SPECIMENS if any(fnmatchcase(s.name, p) or s.kind == p for p in patterns)]
    if not found:
        raise ValueError(f"no model of the field corpus is called {' or '.join(patterns)}; --list shows them")
    return found
