"""BentoML for one ONNX file, by ONNX Runtime: `python bentoml_service.py MODEL PORT`."""

import os
import sys
from typing import Any

import bentoml  # pyright: ignore[reportMissingImports]
import numpy as np
import onnxruntime

BATCH = int(os.environ.get("BATCH") or 0)


@bentoml.service(traffic={"timeout": 60})
class Onnx:
    def __init__(self):
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"])

    @bentoml.api(batchable=BATCH > 1, max_batch_size=max(2, BATCH), max_latency_ms=60_000)
    def predict(self, x: np.ndarray) -> np.ndarray:
        found: Any = self.session.run(None, {"x": x.astype(np.float32)})[0]
        return found


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    environment = os.environ | {"MODEL": sys.argv[1], "BENTOML_DO_NOT_TRACK": "True"}
    command = ["bentoml", "serve", "bentoml_service:Onnx", "--port", sys.argv[2], "--working-dir", here]
    os.execve(os.path.join(os.path.dirname(sys.executable), "bentoml"), command, environment)
