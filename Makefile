# The two commands that matter: `make lab` and `make test`. Each sets up what it needs, once.
VENV     ?= .venv
PYTHON   ?= python3
ARGS     ?=
PORT     ?= 8000
BELOW    ?=
TRITON   ?= triton==3.9.0
BIN      := $(VENV)/bin
PIP      := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Jupyter refuses to run as root, as in a container, unless told
AS_ROOT  := $(shell [ "$$(id -u)" != 0 ] || echo --allow-root)

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help lab test test-gpu book serve lint format bench picture constraints oracles clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

lab: $(VENV)/.lab  ## JupyterLab at the start notebook (ARGS=--no-browser on a server)
	$(BIN)/jupyter lab $(AS_ROOT) $(ARGS) notebooks/00_start.ipynb

test: $(VENV)/.all node_modules/.mxlab | system  ## lint, book build, every test, browsers included
	$(MAKE) --no-print-directory lint book oracles
	$(BIN)/python -m pytest $(ARGS)
	node --test tests/node

test-gpu:  ## the kernels' tests on this machine's GPU, with the torch that is installed (PYTHON)
	@$(PYTHON) -c 'import torch; assert torch.cuda.is_available(), "torch finds no CUDA GPU here"'
	PYTHONPATH=. $(PYTHON) -m pytest $(ARGS) tests/test_kernels_quantize.py tests/test_kernels_dequantize.py \
	  tests/test_kernels_ptx.py tests/test_gemm_backends.py tests/test_torch_arrays.py

book: $(VENV)/.all node_modules/.mxlab  ## the site, built strictly, into _build/html
	$(BIN)/python tools/build_book.py

serve: book  ## the site on this machine (PORT=8000; BELOW=mxlab as on a project's page)
	$(BIN)/python tools/serve.py --port $(PORT) --below "$(BELOW)"

lint: $(VENV)/.all  ## ruff and the strict type check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.all  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.all  ## measure this machine (ARGS="gemm --m 16 --n 1024 --k 1024")
	$(BIN)/mxlab bench $(ARGS)

picture: $(VENV)/.lab  ## redraw the README's picture
	$(BIN)/python tools/readme_picture.py

constraints: $(VENV)/.all  ## rewrite constraints.txt from the environment
	$(BIN)/python tools/constraints.py

oracles: $(VENV)/.all  ## the peers that the oracle tests run, their Python alone (100 MB to fetch)
	$(BIN)/python tools/oracles.py

clean:  ## what was built, not what was installed
	rm -rf _build book/guards book/reference/_generated book/_static/vendor .pytest_cache .mypy_cache .ruff_cache

# ---- what the targets above need; a stamp is older than its inputs only when they changed ----

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mxlab needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[lab]'
	@touch $@

# torch first and by name: an open range would take a build of several GB (docs/decisions.md)
$(VENV)/.all: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch
	@$(BIN)/python -c 'import triton' 2>/dev/null || [ "$$(uname -sm)" != "Linux x86_64" ] || $(PIP) '$(TRITON)'
	$(PIP) -e '.[all]'
	@touch $@ $(VENV)/.lab

node_modules/.mxlab: package.json package-lock.json | $(BIN)/python
	@tools/node.sh $(BIN)
	npm ci --no-audit --no-fund --silent
	@touch $@

.PHONY: system
system:
	@tools/system.sh
