import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # `bench` is not installed; it is run from the repository root
