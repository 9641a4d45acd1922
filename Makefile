# Everything a person does in this checkout. `make` alone lists the commands.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

REQUIREMENTS := requirements.txt requirements/dev.txt
OPTIONAL_REQUIREMENTS := $(addprefix requirements/,docs.txt export.txt gcp.txt gpu.txt models.txt notebooks.txt observers.txt preflight.txt search.txt tpu.txt peers.txt)
BUILDIFIER := npx --yes @bazel/buildifier@8.2.1
UV := uv==0.13.9
# The pip of Python 3.11's venv (23.2) takes no hash for a package with an extra, such as google-auth[pyopenssl].
PIP := pip==25.3
# Worker processes of the tests.
JOBS ?= 2
# Programs of tests/soak, their cases (all), and more flags, such as --kills=50, --count=50 or --list.
SOAK ?= kill damage
CASES ?=
SOAK_FLAGS ?=

# Newest first. A Python counts if it runs: a shim of pyenv may stand on PATH and fail.
PYTHONS := $(shell sed -nE 's/.*"Programming Language :: Python :: (.+)".*/\1/p' pyproject.toml | sort -rV)
CANDIDATES := $(or $(PYTHON),$(PYTHONS:%=python%) python3 python)
version_of = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
RUNNING = $(strip $(foreach python,$(CANDIDATES),$(addprefix $(python)=,$(call version_of,$(python)))))
NEWEST = $(firstword $(foreach version,$(PYTHONS),$(patsubst %=$(version),%,$(filter %=$(version),$(RUNNING)))))

define needs_python
[[ -n "$(NEWEST)" ]] || { echo "error: found no Python $(PYTHONS) among $(CANDIDATES)." \
  "Those that run: $(or $(RUNNING),none). Install one with its venv module," \
  "or name it: make PYTHON=/path/to/python$(firstword $(PYTHONS))" >&2; exit 2; }
endef

# .venv is made anew where its Python is gone, or is another than PYTHON= names.
FITTING := $(filter $(if $(PYTHON),$(call version_of,$(PYTHON)),$(PYTHONS)),$(call version_of,.venv/bin/python))

# An empty environment at $(2) for the Python $(1).
new_venv = rm -rf $(2) && $(1) -m venv $(2) && $(2)/bin/pip install --quiet --disable-pip-version-check $(PIP)

.PHONY: help
help:  ## List these commands.
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 26

.PHONY: install
install: .venv/.installed  ## Install the pinned, hashed requirements into .venv.

# The stamp is the last thing written: an install that was cut short starts over.
.venv/.installed: $(REQUIREMENTS) $(if $(FITTING),,FORCE)
	@$(needs_python)
	@echo "Installing TensorFlow, Beam and what they need for $(NEWEST) into .venv; this takes minutes."
	@$(call new_venv,$(NEWEST),.venv)
	@start=$$SECONDS; \
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes $(REQUIREMENTS:%=-r %); \
	.venv/bin/pip check --disable-pip-version-check; \
	echo "$(CURDIR)" > "$$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/penstock.pth"; \
	echo "Installed in $$((SECONDS - start)) s; .venv takes $$(du -sh .venv | cut -f1)."
	@touch $@

.PHONY: FORCE

.PHONY: demo
demo: install  ## Handwritten digits end to end: PNG files to an evaluated SavedModel and a report.
	@demo/run.sh

.PHONY: demo-retrain
demo-retrain: install  ## Five days of taxi trips, one of them bad, through scheduled retraining; three minutes.
	@demo/retrain.sh

# A file's tests share datasets, models and traced functions, so they run in one worker.
PYTEST := .venv/bin/python -m pytest -n $(JOBS) --dist loadfile

.PHONY: test
test: install  ## Check the style and run the quick tests, not those marked slow.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PYTEST) -m "not slow"

.PHONY: test-all
test-all: install  ## Check the style and run every test. PENSTOCK_DATA=DIR adds those on real data.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PYTEST)

.PHONY: lint
lint: install  ## Check the style of Python and, where npx exists, of the Bazel files.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	@if command -v npx >/dev/null; then echo '$(BUILDIFIER)'; $(BUILDIFIER) -lint=warn -mode=check $$(git ls-files '*BUILD' '*.bzl' '*.bazel'); \
	else echo "npx not found: the Bazel files were not checked"; fi

.PHONY: format
format: install  ## Format Python.
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

.PHONY: bazel-check
bazel-check: install  ## Build //... with Bazel, run some tests with it, plant imports that it must refuse. Needs bazel.
	.venv/bin/python -m tests.house.bazel_check

.PHONY: acceptance
acceptance: install  ## MNIST, Adult and Chicago taxi end to end, from PENSTOCK_DATA.
	.venv/bin/python -m tests.soak.acceptance --data="$${PENSTOCK_DATA:?names the folder of the real data}"

BEAM := $(shell sed -n 's/^apache-beam==//p' requirements.in)
ENGINES := $(addprefix build/engines/,prism boot flink/job-server.jar spark/job-server.jar worker/.installed)

# Those that cannot be installed (no Go, no Java, no network) are left out, and the table says so.
.PHONY: engines
engines: install  ## The same bytes on Prism, Flink, Spark and a staged Dataflow job; installs them. PENSTOCK_DATA
	-@$(MAKE) --keep-going --no-print-directory $(ENGINES)
	.venv/bin/python -m tests.soak.engines --data="$${PENSTOCK_DATA:?names the folder of the real data}"

build/engines/prism:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM)

# What Beam's own container starts a worker with.
build/engines/boot:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/python/container@v$(BEAM)
	mv $(@D)/container $@

build/engines/%/job-server.jar: deploy/job_server.sh deploy/%/pom.xml
	$< $*

# Of the launcher's Python: what Beam pickles, no other version reads.
build/engines/worker/.installed: requirements/gcp.txt .venv/.installed
	$(call new_venv,.venv/bin/python,$(@D))
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

MERMAID := 11.12.0
MERMAID_SHA256 := 07e37dfa97b337ccc85365d57eddf99b9706f09db3b59b260d0333b23b343c4b

# Drawings are made where a page is opened. Without npm their program is fetched then, from unpkg.com.
.PHONY: docs
docs: build/docs/.installed  ## Build the site into build/site; a warning is an error.
	-@command -v npm >/dev/null && $(MAKE) --no-print-directory build/docs/mermaid.min.js
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict --quiet
	@if [[ -f build/docs/mermaid.min.js ]]; then cp build/docs/mermaid.min.js build/site/assets/mermaid.min.js; \
	else echo "npm did not bring mermaid: drawings need the network"; fi
	@echo "Look at it, and search in it: python3 -m http.server --directory build/site"

build/docs/.installed: requirements/docs.txt
	@$(needs_python)
	$(call new_venv,$(NEWEST),$(@D))
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

build/docs/mermaid.min.js:
	npm pack --silent --pack-destination $(@D) mermaid@$(MERMAID) >/dev/null
	tar --extract --gzip --file=$(@D)/mermaid-$(MERMAID).tgz --directory=$(@D) package/dist/$(@F)
	echo "$(MERMAID_SHA256)  $(@D)/package/dist/$(@F)" | sha256sum --check --quiet
	mv $(@D)/package/dist/$(@F) $@

.PHONY: pictures-of-docs
pictures-of-docs: install  ## Run the tutorial, and take its pictures anew; needs chromium. Five minutes.
	.venv/bin/python -m tests.house.docs.pictures

COMMIT ?= HEAD

.PHONY: same-as
same-as: install  ## The same bytes, orders and losses as those of COMMIT? PENSTOCK_DATA; ten minutes.
	.venv/bin/python -m tests.soak.same_as --commit=$(COMMIT) --data="$${PENSTOCK_DATA:?names the folder of the real data}"

.PHONY: same-python
same-python: install  ## The same bytes, orders and losses under OTHER=python3.11? PENSTOCK_DATA; ten minutes.
	$(call new_venv,"$${OTHER:?names another supported Python}",build/other)
	build/other/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	.venv/bin/python -m tests.soak.same_as --commit=HEAD --python=build/other/bin/python \
	  --data="$${PENSTOCK_DATA:?names the folder of the real data}"

.PHONY: benchmark-against
benchmark-against: install  ## What reading and converting cost beside COMMIT, interleaved; an hour.
	.venv/bin/python -m benchmarks.against --commit=$(COMMIT) --data=$(BENCHMARK_DATA)

# Publishing to a store needs Google's libraries beside .venv's: `make build/engines/worker/.installed` has them.
.PHONY: soak
soak: install  ## Kill and damage everything, for hours; SOAK=kill CASES=convert,train_* SOAK_FLAGS=--kills=50 choose.
	for program in $(SOAK); do PYTHONPATH=$$(echo build/engines/worker/lib/python*/site-packages) \
	  .venv/bin/python -m tests.soak.$$program --cases='$(CASES)' $(SOAK_FLAGS); done

.PHONY: deploy-check
deploy-check: install  ## Recipes of deploy/ through the programs and libraries that read them; installs those. Ten minutes.
	.venv/bin/python -m tests.commands.deploy

BENCHMARK_DATA ?= build/benchmark

.PHONY: benchmark-input
benchmark-input: install peers  ## The input pipeline beside its peers, as benchmarks/RESULTS.md: an hour, and 12 GB.
	.venv/bin/python -m benchmarks.input --data=$(BENCHMARK_DATA)/input --results=benchmarks/RESULTS.md \
	  --json=$(BENCHMARK_DATA)/input.json

.PHONY: benchmark-window
benchmark-window: install  ## What reading 30 spans as one costs beside one dataset of the same rows; five minutes.
	.venv/bin/python -m benchmarks.window --scratch=$(BENCHMARK_DATA)/window

.PHONY: benchmark-hosts
benchmark-hosts: install  ## What each of 64 hosts reads and pays for an example beside one host alone; seven minutes.
	.venv/bin/python -m benchmarks.hosts --scratch=$(BENCHMARK_DATA)/small

.PHONY: benchmark-source
benchmark-source: install peers  ## What a row costs through penstock's source, beside Grain, ArrayRecord and torch; two minutes.
	.venv/bin/python -m benchmarks.source --scratch=$(BENCHMARK_DATA)/source

.PHONY: peers
peers: build/peers/.installed  ## Install what `make benchmark-input` and `benchmark-train` compare with into build/peers: 6 GB.

build/peers/.installed: requirements/peers.txt .venv/.installed
	$(call new_venv,.venv/bin/python,$(@D))
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# What runs on a TPU VM, as far as it goes without one: there is no XLA for the CPU in tensorflow-tpu.
TPU_TESTS := $(addprefix tests/unit/,data/input data/reading data/preprocessing training/engine training/loop \
  training/experiment training/tasks training/run/run_test.py)

.PHONY: test-tpu
test-tpu: build/tpu/.installed  ## Tests of input, step and checkpoints with requirements/tpu.txt (tensorflow-tpu 2.20); needs no TPU.
	TPU_SKIP_MDS_QUERY=1 $(<D)/bin/python -m pytest -n $(JOBS) $(TPU_TESTS)

build/tpu/.installed: requirements/tpu.txt .venv/.installed
	$(call new_venv,.venv/bin/python,$(@D))
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: benchmark-train
benchmark-train: install  ## What a step costs beside Keras's model.fit (and torch, after `make peers`), in CPU time; five minutes.
	.venv/bin/python -m benchmarks.train

# What `make tpu-check` lets preflight forecast, such as v5e:2x4; and more flags, such as --quick.
TARGET ?=
CHECK_FLAGS ?=

.PHONY: gpu-check
gpu-check: install  ## How fed, fast and exact this machine's GPUs are: a page, in ten minutes. Without a GPU a rehearsal.
	@if command -v nvidia-smi >/dev/null; then \
	  .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/gpu.txt; \
	else echo "no NVIDIA driver was found: this will be a rehearsal on the processor"; fi
	.venv/bin/python -m benchmarks.metal $(CHECK_FLAGS)

.PHONY: tpu-check
tpu-check: build/tpu/.installed  ## The same on a TPU VM; TARGET=v5e:2x4 says what preflight should forecast.
	$(<D)/bin/python -m benchmarks.metal --target=$(TARGET) $(CHECK_FLAGS)

.PHONY: benchmark-gate
benchmark-gate: install  ## Does the gate decide as often right as it says? 15,000 simulated holdouts; three minutes.
	.venv/bin/python -m benchmarks.gate

# What is pinned stays unless requirements*.in rule it out; `make lock UPGRADE=--upgrade` takes the newest.
.PHONY: lock
lock: build/uv/bin/uv  ## Pin and hash requirements*.in, for every supported Python at once.
	@for name in $(REQUIREMENTS:.txt=) $(OPTIONAL_REQUIREMENTS:.txt=); do echo "$$name.in -> $$name.txt"; \
	$< pip compile --quiet $$name.in --output-file $$name.txt --universal \
	  --python-version $(lastword $(PYTHONS)) --generate-hashes --no-header $(UPGRADE); done

build/uv/bin/uv:
	@$(needs_python)
	@$(call new_venv,$(NEWEST),build/uv) && build/uv/bin/pip install --quiet --disable-pip-version-check $(UV)

.PHONY: clean
clean:  ## Remove what the commands above made: .venv, build/ and caches.
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
