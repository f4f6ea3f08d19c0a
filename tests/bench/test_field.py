"""The field corpus: a small part of it agrees with ONNX Runtime, and what goes wrong is a row and not the end."""

import dataclasses
import importlib.util
import json
import math
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from bench.__main__ import main
from bench.field import catalogue, examine, measure, page, specimen
from bench.field.catalogue import SPECIMENS, by_name, select
from bench.field.measure import Settings, check, generate, keep, problems, read_result
from bench.field.specimen import Specimen, flat, read_cases, save_cases
from onnx import TensorProto, helper

from bench import worker

SETTINGS = Settings(threads=1, rounds=2, seconds=0.01, starts=1, patience=240)
SMALL = ["graph", "policy", "recommender", "bags", "experts", "selective-scan", "temporal", "unet", "shufflenet",
         "lr-aspp", "pyramid", "text-line", "keywords", "standardised"]  # fmt: skip


def quiet(text: str) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTAGLIO_FIELD_MODELS", str(tmp_path / "field"))
    return tmp_path / "field"


def write_model(made: Specimen, weight: float) -> None:
    """y = x * weight, with the answers of y = 2 x as expected ones."""
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    constant = helper.make_tensor("w", TensorProto.FLOAT, [1], [weight])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [constant])
    made.folder.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), made.path)
    cases = [{"feeds": {"x": x}, "expected": {"0": 2 * x}} for x in (np.ones(3, np.float32), np.ones(5, np.float32))]
    save_cases(made.folder / specimen.CASES, cases)
    (made.folder / specimen.FACTS).write_text(json.dumps({"failure": "", "made": 0.0}))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_small_part_of_the_corpus(name: str, folder: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    chosen = by_name(f"{name}.script")
    generate([chosen], SETTINGS, quiet)
    facts = chosen.facts()
    assert facts is not None
    assert facts["failure"] == ""
    assert facts["dropped"] == []
    result = keep(chosen, check=check(chosen, SETTINGS))
    assert problems(result) == []
    assert result["check"]["step"] == "done"
    assert len(result["check"]["cases"]) >= 5


def test_the_corpus_is_large_and_names_are_unique() -> None:
    names = [item.name for item in SPECIMENS]
    assert len(names) == len(set(names))
    assert len(names) >= 150
    assert {"llm", "encoder", "vision", "speech", "sklearn", "boosted", "quantised", "float16", "optimised", "wheel",
            "network", "detection"} <= {item.kind for item in SPECIMENS}  # fmt: skip
    assert len([name for name in names if name.endswith(".dynamo")]) > 50
    assert len([name for name in names if name.endswith(".script")]) > 50


def test_the_catalogue_names_what_the_builders_know() -> None:
    pytest.importorskip("torch")
    from bench.field import architectures, sound

    assert set(catalogue.NETWORKS) == set(architectures.MODELS)
    assert set(catalogue.SOUNDS) == set(sound.MODELS)
    if importlib.util.find_spec("transformers") is None:
        return
    from bench.field import language, speech, vision

    assert set(catalogue.DECODERS) == set(language.DECODERS)
    assert set(catalogue.ENCODERS) == set(language.ENCODERS)
    assert set(catalogue.TRANSLATORS) == set(language.TRANSLATORS)
    assert set(catalogue.TIMM + catalogue.TIMM_SCRIPT) == set(vision.TIMM)
    assert set(catalogue.PICTURES) == set(vision.TRANSFORMERS)
    assert set(catalogue.WAVES) == set(speech.WAVE_MODELS)


def test_every_conversion_starts_from_a_model_of_the_corpus() -> None:
    names = {item.name for item in SPECIMENS}
    assert {source for rows in catalogue.CONVERTED.values() for source, *_ in rows} <= names


def test_models_are_chosen_by_name_pattern_and_kind() -> None:
    assert [item.name for item in select(["llama.*"])] == ["llama.dynamo", "llama.script"]
    assert {item.kind for item in select(["boosted"])} == {"boosted"}
    with pytest.raises(ValueError, match="no model of the field corpus is called nothing"):
        select(["nothing"])
    with pytest.raises(ValueError, match="called nothing"):
        by_name("nothing")


def test_agreement_and_what_is_none() -> None:
    x = np.array([1.0, 2.0], np.float32)
    assert examine.difference([x], [x]) == (0.0, "")
    assert examine.difference([x * 1.5], [x])[0] == pytest.approx(0.5)
    assert examine.difference([x], [x.astype(np.float64)])[0] == math.inf
    assert examine.difference([x[:1]], [x])[0] == math.inf
    assert examine.difference([x, x], [x])[0] == math.inf
    assert examine.difference([np.array([1, 2])], [np.array([1, 3])])[0] == math.inf
    assert examine.difference([np.array(["a"])], [np.array(["b"])])[0] == math.inf
    bad = np.array([np.nan, np.inf], np.float32)
    assert examine.difference([bad], [bad]) == (0.0, "")
    assert examine.difference([x], [bad])[0] == math.inf
    assert examine.difference([bad], [x])[0] == math.inf


def test_maps_sequences_and_text_become_arrays_and_come_back(tmp_path: Path) -> None:
    answers = flat([{"low": np.float32(0.25), "high": 0.75}, {"low": 0.5, "high": 0.5}])
    assert [array.tolist() for array in answers] == [2, ["low", "high"], [0.25, 0.75], ["low", "high"], [0.5, 0.5]]
    assert flat(None)[0].size == 0
    words = np.array([["a"], ["bcd"]], object)
    save_cases(tmp_path / "cases.npz", [{"feeds": {"odd/name": words}, "expected": {"0": words}}])
    (case,) = read_cases(tmp_path / "cases.npz")
    assert case["feeds"]["odd/name"].dtype == object
    assert case["feeds"]["odd/name"].tolist() == words.tolist()
    assert case["expected"]["0"].tolist() == words.tolist()


@pytest.mark.parametrize(("types", "tolerance"), [
    ([TensorProto.FLOAT], "float32"), ([TensorProto.DOUBLE], "float64"),
    ([TensorProto.FLOAT16, TensorProto.FLOAT], "float16"),
    ([TensorProto.BFLOAT16], "bfloat16"),
])  # fmt: skip
def test_tolerance_follows_from_the_types(tmp_path: Path, types: list[int], tolerance: str) -> None:
    constants = [helper.make_tensor(f"w{i}", kind, [1], [1.0]) for i, kind in enumerate(types)]
    graph = helper.make_graph([], "g", [], [], constants)
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    feeds = [{"x": np.ones(1)}] if types == [TensorProto.DOUBLE] else []
    assert examine.tolerance_of(tmp_path / "m.onnx", feeds) == examine.TOLERANCES[tolerance]


def test_a_right_model_has_all_its_figures(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    chosen = by_name("policy.script")
    write_model(chosen, 2.0)
    result = keep(chosen, check=check(chosen, SETTINGS), race=measure.race(chosen, SETTINGS))
    assert problems(result) == []
    assert result["check"]["host_runs"] == 0
    assert result["check"]["cold"] > 0
    assert measure.ratio(result) > 0
    assert result["race"]["clock"] == "perf_counter"
    assert measure.start(result, "theirs") > 0
    text = page.page([chosen], SETTINGS, "python -m bench field")
    assert "| policy.script | 2 of 2 |" in text
    assert "1 models that ONNX Runtime runs; 1 examined, 1 load and agree" in text


def test_processor_time_is_marked(folder: Path) -> None:
    chosen = by_name("policy.script")
    write_model(chosen, 2.0)
    times = {"starts": [9.5], "starts_cpu": [0.25], "rounds": [2.0], "memory": 2**20}
    race = {"clock": "process_time", "ours": times, "theirs": {**times, "starts_cpu": [0.125], "rounds": [3.0]}}
    result = keep(chosen, check={"step": "done", "cases": [], "tolerance": 1e-4}, race=race)
    assert not measure.is_late(result)
    assert "| 0.250* | 0.125* | 1.50* |" in page.page([chosen], SETTINGS, "")
    race["clock"] = "perf_counter"
    assert "| 9.500 | 9.500 | 1.50 |" in _page_of(chosen, race)
    race["theirs"] = {**times, "starts": [4.5]}
    assert measure.is_late(keep(chosen, race=race))
    assert "warm loads over twice ONNX Runtime's and 0.1 s: 1 of 1 (policy.script)" in _page_of(chosen, race)
    race["theirs"] = {**times, "rounds": [1.0]}
    assert "under 0.9: policy.script 0.50" in _page_of(chosen, race)
    busy = page.page([chosen], dataclasses.replace(SETTINGS, clock="process_time"), "")
    assert "processor time is counted" in busy
    assert "processor time is counted" not in _page_of(chosen, race)


def test_a_failure_of_the_other_engine_is_no_problem_of_ours(folder: Path) -> None:
    chosen = by_name("policy.script")
    write_model(chosen, 2.0)
    found = {"step": "done", "cases": [], "tolerance": 1e-4}
    result = keep(chosen, check=found, race={"failure": "Fail: it does not run", "failed": "theirs"})
    assert problems(result) == []
    assert "fails: Fail: it does not run" in page.page([chosen], SETTINGS, "")
    result = keep(chosen, check=found, race={"failure": "it does not run", "failed": "ours"})
    assert problems(result) == ["race: it does not run"]


def _page_of(chosen: Specimen, race: dict[str, object]) -> str:
    keep(chosen, race=race)
    return page.page([chosen], SETTINGS, "")


def test_processor_time_counts_the_programs_that_were_run() -> None:
    own, before = time.process_time(), worker.processor_seconds()
    subprocess.run([sys.executable, "-c", "sum(i for i in range(200_000))"], check=True)
    used, own = worker.processor_seconds() - before, time.process_time() - own
    assert used > own


def test_a_wrong_answer_is_told_with_its_size(folder: Path) -> None:
    chosen = by_name("policy.script")
    write_model(chosen, 3.0)
    found = check(chosen, SETTINGS)
    assert all(case["spread"] == pytest.approx(0.5) for case in found["cases"])  # the judge is as far from what it said
    assert all(case["optimised"] == 0 for case in found["cases"])  # and that is what we said
    for case in found["cases"]:
        del case["spread"], case["optimised"]
    result = keep(chosen, check=found)
    assert [text.partition(",")[0] for text in problems(result)] == ["x 3: error 5.0e-01", "x 5: error 5.0e-01"]
    assert "| policy.script | 0 of 2 |" in page.page([chosen], SETTINGS, "")


def test_the_page_tells_what_was_not_made_and_names_no_folder(folder: Path) -> None:
    chosen = [by_name(f"{name}.script") for name in ("policy", "graph", "bags")]
    write_model(chosen[0], 2.0)
    chosen[1].folder.mkdir(parents=True)
    failure = "ONNX Runtime does not load /some/where/model.onnx | File /a/b.py"
    (chosen[1].folder / specimen.FACTS).write_text(json.dumps({"failure": failure, "made": 0.0}))
    text = page.page(chosen, SETTINGS, "")
    assert "- graph.script: ONNX Runtime does not load model.onnx / File b.py" in text
    assert "Not made in this run: bags.script." in text
    assert "Made, and not examined: policy.script." in text
    assert "| policy.script |" not in text
    keep(chosen[0], source="older", check={"step": "done", "cases": [], "tolerance": 1e-4})
    assert "1 of them were examined with an earlier state" in page.page(chosen, SETTINGS, "")


def test_a_file_that_is_no_model_is_a_row(folder: Path) -> None:
    chosen = by_name("policy.script")
    write_model(chosen, 2.0)
    chosen.path.write_bytes(b"\xff" * 9)
    result = keep(chosen, check=check(chosen, SETTINGS))
    assert len(problems(result)) == 1
    assert "| policy.script | fails |" in page.page([chosen], SETTINGS, "")


def fake_python(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Processes are started as this shell script from now on."""
    path = folder / "python"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(path))


def test_a_crash_while_a_model_is_made_is_its_row_and_the_next_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'shift 2; echo "start $1"; [ "$1" = policy.script ] && kill -9 $$; echo "done $1"'
    fake_python(folder, monkeypatch, script)
    said: list[str] = []
    generate([by_name("policy.script"), by_name("graph.script")], SETTINGS, said.append)
    facts = by_name("policy.script").facts()
    assert facts is not None
    assert facts["failure"].startswith("the process that makes it ended")
    assert said[-1] == "done graph.script"


def test_a_process_that_ends_or_is_silent_is_a_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = by_name("policy.script")
    write_model(chosen, 2.0)
    fake_python(folder, monkeypatch, "kill -9 $$")
    assert problems({"check": check(chosen, SETTINGS)}) == ["start: the process ended with -9: "]
    fake_python(folder, monkeypatch, "sleep 60")
    assert problems({"check": check(chosen, Settings(patience=0.5))}) == ["start: no end in 0 s"]


def test_results_of_the_same_sources_are_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = by_name("policy.script")
    write_model(chosen, 2.0)
    keep(chosen, source=measure.source_hash(), check={"step": "done", "cases": [], "tolerance": 1e-4, "cold": 123.0})
    assert main(["field", "--select", "policy.script", "--no-speed"]) == 0
    assert read_result(chosen)["check"]["cold"] == 123.0
    assert "123.00" in capsys.readouterr().out


def test_the_list_names_every_chosen_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["field", "--list", "--select", "bert.*"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["bert.dynamo", "bert.script"]
    with pytest.raises(SystemExit):
        main(["field", "--select", "nothing"])


def test_a_difference_counts_only_beyond_that_of_the_judge_from_itself() -> None:
    case = {"sizes": {"x": [2]}, "error": 0.2, "why": "output 0"}
    wrong = {"check": {"step": "done", "tolerance": 0.05, "cases": [case]}}
    assert problems({"check": {"step": "load"}}) == ["load: the examination did not end"]
    assert problems(wrong) == ["x 2: error 2.0e-01, output 0"]
    for spread, is_wrong in ((0.1, True), (0.3, False), (math.inf, True)):
        result = {"check": {"step": "done", "tolerance": 0.05, "cases": [{**case, "spread": spread}]}}
        assert bool(problems(result)) == is_wrong
        assert any("with and without" in note for note in page.notes_of(result)) != is_wrong
