"""MLServer's runtime for one ONNX file, by ONNX Runtime: `python mlserver_runtime.py MODEL PORT`."""

import json
import os
import sys
import tempfile

import mlserver  # pyright: ignore[reportMissingImports]
import onnxruntime
from mlserver.codecs import NumpyCodec  # pyright: ignore[reportMissingImports]


class Onnx(mlserver.MLModel):
    async def load(self):
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri)
        return True

    async def predict(self, payload):
        feeds = {each.name: NumpyCodec.decode_input(each) for each in payload.inputs}
        outputs = self.session.run(None, feeds)
        names = [each.name for each in self.session.get_outputs()]
        return mlserver.types.InferenceResponse(
            model_name=self.name,
            id=payload.id,
            outputs=[NumpyCodec.encode_output(name, found) for name, found in zip(names, outputs, strict=True)],
        )


def main():
    model, port = sys.argv[1:3]
    folder = tempfile.mkdtemp()
    tensor = {"datatype": "FP32", "shape": [-1, int(os.environ.get("WIDTH", "4"))]}
    settings = {
        "name": os.path.splitext(os.path.basename(model))[0],
        "implementation": "mlserver_runtime.Onnx",
        "parameters": {"uri": model, "version": "1"},
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", **tensor}],
    }
    if os.environ.get("BATCH"):
        settings |= {"max_batch_size": int(os.environ["BATCH"]), "max_batch_time": 0.001}
    with open(os.path.join(folder, "model-settings.json"), "w") as file:
        json.dump(settings, file)
    quiet = {"http_port": int(port), "grpc_port": int(port) + 1, "metrics_port": int(port) + 2, "debug": False}
    quiet |= {"parallel_workers": 0, "access_log": False, "use_structured_logging": False}
    with open(os.path.join(folder, "settings.json"), "w") as file:
        json.dump(quiet, file)
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
    os.execve(os.path.join(os.path.dirname(sys.executable), "mlserver"), ["mlserver", "start", folder], environment)


if __name__ == "__main__":
    main()
