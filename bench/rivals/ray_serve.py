"""Ray Serve for one ONNX file, by ONNX Runtime: `python ray_serve.py MODEL PORT`."""

import os
import sys
import time
from typing import Any

import numpy as np
import onnxruntime
from ray import serve  # pyright: ignore[reportMissingImports]

BATCH = int(os.environ.get("BATCH") or 0)


@serve.deployment(max_ongoing_requests=256)
class Onnx:
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path)

    @serve.batch(max_batch_size=max(1, BATCH), batch_wait_timeout_s=0.001)
    async def together(self, arrays):
        found: Any = self.session.run(None, {"x": np.concatenate(arrays)})[0]
        return np.split(found, np.cumsum([len(each) for each in arrays])[:-1])

    async def __call__(self, request):
        x = np.array((await request.json())["x"], np.float32)
        found: Any = await self.together(x) if BATCH > 1 else self.session.run(None, {"x": x})[0]
        return {"y": found.tolist()}


if __name__ == "__main__":
    serve.start(http_options={"port": int(sys.argv[2])})
    deployment: Any = Onnx
    serve.run(deployment.bind(sys.argv[1]), route_prefix="/predict")
    while True:
        time.sleep(60)
