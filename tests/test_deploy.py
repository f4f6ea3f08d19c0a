"""The files in `deploy/`: manifests by Kubernetes' own schemas, the Dockerfile by rules, and its steps without Docker.

No image is built here and nothing is applied to a cluster: neither is there where these tests run.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import numpy as np
import pytest
import yaml
from tests.serve.processes import TWICE, save, serving
from tests.serve.test_http import wait_until_ready
from tests.test_doc_names import commands, options_of

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
Document = dict[str, Any]


def documents(name: str) -> list[Document]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


PLAIN = documents("kubernetes/serve.yaml")
(RUNTIME,) = documents("kserve/serving-runtime.yaml")
(SERVICE,) = documents("kserve/inference-service.yaml")
DEPLOYMENT = PLAIN[0]["spec"]["template"]["spec"]
CONTAINERS = {"Deployment": DEPLOYMENT["containers"][0], "ServingRuntime": RUNTIME["spec"]["containers"][0]}


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("document", PLAIN, ids=lambda document: document["kind"])
def test_manifests_fit_the_schemas_of_kubernetes(document: Document, version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_a_wrong_manifest_would_be_found() -> None:
    wrong = PLAIN[0] | {"spec": PLAIN[0]["spec"] | {"replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, "1.29", strict=True)


def test_the_runtime_of_kserve() -> None:
    """Its schema is not at hand: the pod in it is judged as one of Kubernetes, its own fields by their names."""
    assert (RUNTIME["apiVersion"], RUNTIME["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime")
    own = {"annotations", "supportedModelFormats", "protocolVersions", "multiModel"}
    pod = {name: part for name, part in RUNTIME["spec"].items() if name not in own}
    assert set(pod) == {"containers", "volumes"}
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}, "1.29", strict=True
    )
    assert CONTAINERS["ServingRuntime"]["name"] == "kserve-container"
    assert {"v2", "grpc-v2"} == set(RUNTIME["spec"]["protocolVersions"])
    for kind in RUNTIME["spec"]["supportedModelFormats"]:
        assert set(kind) <= {"name", "version", "autoSelect", "priority"}
        assert isinstance(kind["version"], str)


def test_the_service_of_kserve_fits_its_runtime() -> None:
    assert (SERVICE["apiVersion"], SERVICE["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    predictor = SERVICE["spec"]["predictor"]
    assert set(predictor) == {"minReplicas", "maxReplicas", "scaleMetric", "scaleTarget", "model"}
    model = predictor["model"]
    assert set(model) == {"runtime", "protocolVersion", "modelFormat", "storageUri"}
    assert model["runtime"] == RUNTIME["metadata"]["name"]
    assert model["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]
    formats = [{name: kind[name] for name in ("name", "version")} for kind in RUNTIME["spec"]["supportedModelFormats"]]
    assert model["modelFormat"] in formats
    assert Path(model["storageUri"]).stem == SERVICE["metadata"]["name"]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_may_do_little(kind: str) -> None:
    container = CONTAINERS[kind]
    context = container["securityContext"] | (DEPLOYMENT["securityContext"] if kind == "Deployment" else {})
    assert context["runAsNonRoot"] is True
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]["requests"]) == set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert not re.search(r":latest$|/[^:]*$", container["image"])


@pytest.mark.parametrize("kind", CONTAINERS)
def test_arguments_are_options_of_the_command(kind: str) -> None:
    command, folder, *given = CONTAINERS[kind]["args"]
    (function,) = commands()[command]
    known = set(options_of(function))
    assert folder.startswith("/")
    assert {argument.split("=")[0] for argument in given} <= known
    documented = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    for variable in CONTAINERS[kind].get("env", []):
        assert f"`{variable['name']}`" in documented


def seconds(kind: str, option: str) -> float:
    (found,) = [text for text in CONTAINERS[kind]["args"] if text.startswith(f"{option}=")]
    return float(found.split("=")[1])


def test_a_pod_has_the_time_to_drain() -> None:
    needed = seconds("Deployment", "--drain") + seconds("Deployment", "--timeout")
    assert DEPLOYMENT["terminationGracePeriodSeconds"] > needed
    ready = CONTAINERS["Deployment"]["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] < seconds("Deployment", "--drain")


def test_ports_and_names_fit_each_other() -> None:
    by_kind = {document["kind"]: document for document in PLAIN}
    container = CONTAINERS["Deployment"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": seconds("Deployment", "--port"), "grpc": seconds("Deployment", "--grpc-port")}
    assert {port["targetPort"] for port in by_kind["Service"]["spec"]["ports"]} == set(ports)
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        by_kind["Service"]["spec"]["selector"],
        by_kind["Deployment"]["spec"]["selector"]["matchLabels"],
        by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    target = by_kind["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", by_kind["Deployment"]["metadata"]["name"])
    for container in CONTAINERS.values():
        (reference,) = [v["valueFrom"]["resourceFieldRef"] for v in container["env"] if "valueFrom" in v]
        assert reference == {"containerName": container["name"], "resource": "limits.cpu"}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with their lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage by its name, `FROM` first; the last one has no name."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for name, rest in instructions():
        if name == "FROM":
            _, _, alias = rest.partition(" AS ")
            current = found[alias or "last"] = []
        current.append((name, rest))
    return found


def test_images_are_built_as_they_should_be() -> None:
    known = {"FROM", "RUN", "COPY", "ENV", "ARG", "USER", "WORKDIR", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in instructions()} == known
    earlier: set[str] = set()
    for stage, parts in stages().items():
        source = parts[0][1].partition(" AS ")[0]
        assert source in earlier or re.fullmatch(r"[\w./-]+:[\w.-]+", source)
        assert not source.endswith(":latest")
        for name, rest in parts:
            if name == "RUN" and "apt-get" in rest:
                for needed in ("apt-get update", "--no-install-recommends", "--yes", "rm -rf /var/lib/apt/lists/*"):
                    assert needed in rest, rest
            if name == "RUN" and "pip install" in rest:
                assert "--no-cache-dir" in rest
            if name in ("ENTRYPOINT", "CMD"):
                assert rest.startswith("[")
            for origin in re.findall(r"--from=(\S+)", rest):
                assert origin in earlier
        earlier.add(stage)


def test_the_last_image_has_no_shell_no_compiler_and_no_root() -> None:
    parts = stages()["last"]
    assert parts[0][1].startswith("gcr.io/distroless/python3-debian12:nonroot")
    assert "RUN" not in [name for name, _ in parts]
    for stage in ("last", "compiling"):
        assert [rest for name, rest in stages()[stage] if name == "USER"] == ["65532:65532"]
    assert DEPLOYMENT["securityContext"]["runAsUser"] == 65532


def sources() -> Iterator[str]:
    """What the Dockerfile copies from the build context."""
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            yield from [part.removeprefix("./") for part in rest.split()[:-1] if not part.startswith("--")]


def test_the_build_context_has_what_is_copied() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    allowed = [line[1:] for line in ignored if line.startswith("!")]
    assert ignored[0] == "*"
    for source in sources():
        if source == "${MODELS}":
            assert "models" in allowed
        else:
            assert (ROOT / source).exists()
            assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed)


def environment_of(stage: str) -> dict[str, str]:
    """The variables of a stage, with the values of its arguments."""
    parts = stages()[stage]
    values = dict(rest.split("=", 1) for name, rest in parts if name == "ARG")
    found = [pair.split("=", 1) for name, rest in parts if name == "ENV" for pair in rest.split()]
    return {name: re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], value) for name, value in found}


NO_COMPILER = {"PATH": "/nonexistent", "CC": ""}


def test_the_steps_of_the_image_make_a_server_without_a_compiler(tmp_path: Path) -> None:
    """What the Dockerfile runs: compile into a cache, then serve from it where there is no compiler."""
    models = tmp_path / "models"
    save(models / "twice.onnx", TWICE)
    cache = {"INTAGLIO_CACHE": str(tmp_path / "cache")}
    target = {"INTAGLIO_TARGET": "c"}  # what every machine of a test has; the image's own is below
    assert environment_of("compiled") == {"INTAGLIO_TARGET": "avx2"}
    image = environment_of("last")
    assert image["INTAGLIO_TARGET"] == "avx2"
    compiling = [sys.executable, "-m", "intaglio", "compile", str(models / "twice.onnx")]
    subprocess.run(compiling, env=os.environ | cache | target, check=True, capture_output=True, timeout=300)
    started = NO_COMPILER | cache | target | {"INTAGLIO_ENGINE": image["INTAGLIO_ENGINE"]}
    paths = {CONTAINERS[kind][probe]["httpGet"]["path"] for kind in CONTAINERS
             for probe in ("startupProbe", "readinessProbe", "livenessProbe")}  # fmt: skip
    with serving(models, environment=started) as server:
        wait_until_ready(server)
        for path in (*paths, "/metrics"):
            assert server.ask("GET", path).status == 200
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(server.infer("twice", {"x": x}).array("y"), 2 * x)
    other = save(tmp_path / "other" / "other.onnx", TWICE.replace("Add(x, x)", "Mul(x, x)"))
    serve = [sys.executable, "-m", "intaglio", "serve", str(other), "--port", "0"]
    refused = subprocess.run(serve, env=os.environ | started, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode != 0
    assert "compiler" in refused.stderr
