# Everything needs only Python 3.11 or newer and make. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps $(INDEX:%=--index-url %)
INDEX = $(shell $(PIP) config get global.index-url 2> /dev/null)
TORCH = $(shell grep -o '^torch==[^ ]*' requirements.lock)

.PHONY: help setup demo test lint types layers pytest prove mutate bench docs site format lock audit clean
help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv with the versions of requirements.lock

# Everything by its hash. torch is fetched first and alone, because pip prefers files whose address names a hash, and so
# the build for GPUs, to a build for CPUs that lies on this machine. Where only the build for GPUs is to be had, the line
# with $(TORCH) alone adds the libraries that it names. uv installs the rest in a tenth of pip's time; pip does if it cannot.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clearhead needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	sed -n '/^torch==/,/[^\\]$$/p' requirements.lock > $(VENV)/torch.lock
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	sed '/^torch==/,/[^\\]$$/d' requirements.lock > $(VENV)/rest.lock
	$(PIP) download --quiet --no-deps --dest $(VENV)/torch $(TORCH)
	$(PIP) install --quiet --no-compile --require-hashes --no-deps --no-index --find-links $(VENV)/torch -r $(VENV)/torch.lock
	$(PIP) install --quiet --require-hashes --no-deps -r $(VENV)/uv.lock
	$(UV) -r $(VENV)/rest.lock || $(PIP) install --quiet --no-compile --require-hashes --no-deps -r $(VENV)/rest.lock
	$(PIP) install --quiet $(TORCH)
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@rm -rf $(VENV)/torch
	@touch $(READY)

demo: setup  ## train English spelling → pronunciation for about 3 minutes, score it on words never seen
	@$(BIN)/clearhead train g2p-en -o runs/demo --minutes 3 --resume
	@$(BIN)/python -m tools.demo runs/demo

# types are checked beside the tests, which now and then wait for a process
test: setup  ## all checks and all tests
	@$(MAKE) --no-print-directory lint layers
	@$(MAKE) --no-print-directory --jobs 2 types pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

pytest: setup
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 3 --dist loadscope

prove: setup  ## the long proofs, about an hour; writes docs/evidence/proofs.md
	$(BIN)/python -m tools.prove

mutate: setup  ## break the code in some 340 ways, one at a time: does a test notice? writes docs/evidence/mutations.md
	$(BIN)/python -m tools.mutate --page docs/evidence/mutations.md

bench: setup  ## speed of training and decoding beside other libraries; their docstrings say which to install
	$(BIN)/python -W ignore -m benchmarks.train_speed
	$(BIN)/python -W ignore -m benchmarks.pipeline_speed
	$(BIN)/python -W ignore -m benchmarks.decode_speed
	$(BIN)/python -m benchmarks.grid_attention

docs: setup  ## write the pages of docs/ that are made from the code
	$(BIN)/python -m tools.make_docs

site: setup build/lectures.html  ## build the documentation site, to be opened at build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo build/site/index.html

build/lectures.html: $(shell find src/clearhead/lectures src/clearhead/pages -name '*.py' -o -name 'lecture-*.js')
	@mkdir -p build
	$(BIN)/clearhead lecture --all --html $@ > /dev/null

format: setup  ## let ruff put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup  ## write what is installed now to requirements.lock, with the hashes of the package index
	$(BIN)/python -m tools.lock

audit: setup  ## hold what is installed against the lock; write build/sbom.cdx.json
	$(BIN)/python -m tools.audit

clean:  ## remove what setup and the tests made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
