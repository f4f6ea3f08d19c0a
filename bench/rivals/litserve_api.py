"""LitServe for one ONNX file, by ONNX Runtime: `python litserve_api.py MODEL PORT`."""

import os
import sys

import litserve  # pyright: ignore[reportMissingImports]
import numpy as np
import onnxruntime


class Onnx(litserve.LitAPI):
    def setup(self, device):
        self.session = onnxruntime.InferenceSession(sys.argv[1])

    def decode_request(self, request):
        return np.array(request["x"], np.float32)

    def batch(self, inputs):
        self.rows = [len(each) for each in inputs]
        return np.concatenate(inputs)

    def predict(self, x):
        return self.session.run(None, {"x": x})[0]

    def unbatch(self, output):
        return np.split(output, np.cumsum(self.rows)[:-1])

    def encode_response(self, output):
        return {"y": output.tolist()}


if __name__ == "__main__":
    batch = int(os.environ.get("BATCH") or 1)
    api = Onnx(max_batch_size=batch, batch_timeout=0.001) if batch > 1 else Onnx()
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[2]), log_level="error", access_log=False, generate_client_file=False)
