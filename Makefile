# `make demo` shows the main job, `make test` runs every check, `make integration` the tests with heavier real parts.  Nothing but Python 3.11+ is needed.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=
# Compiled modules are kept, whatever the shell says: the tests start many programs of Python.

.PHONY: demo demo-local test everything test-litellm integration docs pictures notebooks bench lint types pytest format clean kills workers

demo: .venv/demo.stamp
	$(BIN)/python examples/quickstart.py

demo-local: .venv/local.stamp  # a model of 135 million weights in this process; any larger GGUF: make demo-local MODEL=local/PATH
	$(if $(MODEL),,$(BIN)/agentkit models get smollm2)
	AGENTKIT_MODEL=$(or $(MODEL),local/smollm2) $(BIN)/python examples/tool_function.py

test: lint types pytest

test-litellm:  # the wire tests with another litellm: make test-litellm VERSION=1.109.1
	@test -n "$(VERSION)" || { echo "usage: make test-litellm VERSION=1.109.1"; exit 2; }
	$(PYTHON) -m venv .cache/litellm-$(VERSION)
	.cache/litellm-$(VERSION)/bin/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	.cache/litellm-$(VERSION)/bin/pip install --quiet "litellm==$(VERSION)" || \
		.cache/litellm-$(VERSION)/bin/pip install --quiet --no-deps "litellm==$(VERSION)"  # an index without what it requires
	.cache/litellm-$(VERSION)/bin/pip check || true
	.cache/litellm-$(VERSION)/bin/python -m pytest -n auto tests/models/litellm tests/reliability

docs: .venv/docs.stamp
	@rm -rf site .cache/[0-9]* .cache/*.json .cache/objects.inv  # --clean would delete all of .cache
	$(BIN)/zensical build --strict
	$(BIN)/python -c "$$USE_OWN_SCRIPT"
	@! grep -rlE '<(script|link|img)[^>]* (src|href)="?(https?:)?//' site --include='*.html'  # nothing from outside

define USE_OWN_SCRIPT
# The generator names a script of another host, so that search works from the disk; ours does the same.
from pathlib import Path
for page in Path("site").rglob("*.html"):
    up = "../" * (len(page.parts) - 2)
    page.write_text(page.read_text().replace("https://unpkg.com/iframe-worker/shim", f"{up}assets/worker-on-disk.js"))
endef
export USE_OWN_SCRIPT

pictures: .venv/integration.stamp .cache/integration/installed  # the screenshots of the documentation, with Chromium
	$(BIN)/python tests/integration/pictures.py

notebooks: .venv/integration.stamp
	$(BIN)/agentkit models get smollm2
	$(BIN)/python notebooks/refresh.py

bench: .venv/dev.stamp
	$(BIN)/python benchmarks/run.py $(if $(PEERS),--peers $(PEERS))
	$(BIN)/python benchmarks/turn.py
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/schema.py
	$(BIN)/python benchmarks/telemetry.py

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev.stamp
	$(BIN)/mypy

# A test that fails is run once more, because the suites start some thousand processes and threads on machines that
# others use; the summary shows it.  What is shown there is a defect of the test or of the package.
AGAIN = --reruns 1 --reruns-delay 2 --max-suite-reruns 5 --rerun-show-tracebacks -r sR

pytest: .venv/dev.stamp
	$(BIN)/python -m pytest -n auto -m "not integration" $(AGAIN)

integration: .venv/integration.stamp .cache/integration/installed
	$(BIN)/python -m pytest -n auto --dist loadgroup -m integration $(AGAIN)

workers: .venv/dev.stamp
	AGENTKIT_WORKER_RUNS=200 AGENTKIT_WORKER_STEPS=20 $(BIN)/python -m pytest -rs -s -m integration tests/dbos -k "killed_workers or outpaced"

kills: .venv/dev.stamp
	AGENTKIT_KILL_SECONDS=$(or $(SECONDS),900) $(BIN)/python -m pytest -rs -m integration tests/reliability/test_kills.py tests/sessions/journal/test_killed.py
	AGENTKIT_BATCH_RUNS=$(or $(RUNS),100) AGENTKIT_BATCH_PLACES=50 $(BIN)/python -m pytest -rs -s -m integration tests/agents/test_map_batches.py -k many_places
	AGENTKIT_DAMAGES=5000 AGENTKIT_KILLED_PROGRAMS=200 $(BIN)/python -m pytest -rs -m integration tests/sessions/test_damage.py tests/reliability/test_code_kills.py

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "agentkit needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv --upgrade-deps .venv  # a new pip resolves in a third of the time

.venv/demo.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[tools,cli]"
	@touch $@

.venv/local.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[tools,cli,local]"
	@touch $@

.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

.venv/integration.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,integration]"
	@touch .venv/dev.stamp $@

.cache/integration/installed: tests/integration/install.sh tests/integration/package.json $(wildcard tests/integration/requirements-*.txt)
	tests/integration/install.sh
	@touch $@

.venv/docs.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@

everything: .venv/bin/python  # what all targets need of Python, in one run of pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,integration,docs]"
	@touch .venv/demo.stamp .venv/local.stamp .venv/docs.stamp .venv/dev.stamp .venv/integration.stamp

clean:
	rm -rf .venv dist build site .cache .pytest_cache .mypy_cache .ruff_cache
