# Two commands do everything by themselves on a fresh clone: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST = $(BIN)/python -m pytest -n $${CHAFFINCH_TEST_WORKERS:-3} --dist loadgroup -q
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export DO_NOT_TRACK := 1
# the programs that tests start share what is compiled
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-e2e test-faults fuzz e2e-needs lint docs setup lock audit clean test-lowest test-newest bench-overhead bench-fidelity bench-masked-loss bench-alternatives bench-certified bench-choice bench-choice-cost bench-verdict bench-gate bench-dfs bench-pefs bench-scale bench-schedule bench-doors bench-eta bench-boruta bench-published reproduce

help:  ## What there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | column -ts '	'

run: $(READY)  ## The main job on the breast-cancer table that scikit-learn bundles
	@$(BIN)/python examples/demonstration.py

test: $(READY)  ## Every test but those of test-e2e
	@$(PYTEST) -m "not e2e"

test-e2e: $(READY)  ## Whole programs, servers, worker processes, what is killed, and sweeps over seeds
	@$(PYTEST) -n $${CHAFFINCH_TEST_WORKERS:-4} -m e2e  # they wait much for what they start

# scikit-learn before 1.9 asks for the types of a lazy table that is given as a target, hence the last filter
VERSIONS = build/$(RESOLUTION)
VERSIONS_TESTS := tests/storage/test_columns.py tests/storage/test_tables.py tests/storage/test_text_spellings.py \
	tests/storage/test_files.py tests/tasks/results/test_contract.py tests/tasks/api/test_select.py \
	tests/tasks/api/test_feature_selector.py tests/tasks/data/test_rows_with_roles.py tests/tasks/data/test_stored_rows.py \
	tests/selection/baselines/test_penalised.py \
	tests/selection/models/test_scikit_learn_versions.py tests/flows/test_feature_selection.py
test-lowest: RESOLUTION = lowest-direct
test-newest: RESOLUTION = highest
test-lowest: $(READY)  ## Part of the tests with the lowest versions that pyproject.toml allows
test-newest: $(READY)  ## The same with the newest versions that there are
test-lowest test-newest:
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VERSIONS)
	@$(BIN)/uv pip install --quiet --python $(VERSIONS)/bin/python --resolution $(RESOLUTION) \
		--editable ".[flows,xgboost,alternatives]" \
		$$(grep -oE '^(hypothesis|polars|pytest|pytest-timeout|pytest-xdist)==[^ ]+' requirements.lock)
	@NUMBA_CACHE_DIR=$(VERSIONS)/numba $(VERSIONS)/bin/python -m pytest -n $${CHAFFINCH_TEST_WORKERS:-3} --dist loadgroup \
		-q -m "not e2e" -W ignore::DeprecationWarning -W "ignore:Determining the data types of a LazyFrame" \
		$(VERSIONS_TESTS)

e2e-needs:  ## PostgreSQL and Chromium for test-e2e, which skips tests without them: Debian, as root
	@command -v initdb > /dev/null || ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 \
		|| { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends postgresql; }
	@command -v chromium > /dev/null \
		|| { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends chromium; }

test-faults: $(READY)  ## Faults injected into real runs, and what became of these; TIMES=20
	@$(BIN)/python -m tests.faults --times $${TIMES:-20}

fuzz: $(READY)  ## Random input to the public functions, and what failed; N=2000 SEED=0
	@$(BIN)/python -m tests.fuzz --n $${N:-2000} --seed $${SEED:-0}

lint: $(READY)  ## ruff, strict mypy, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(READY)  ## The documentation as HTML, in build/docs, with the examples run; nothing is downloaded
	@rm -rf build/docs  # of pages that went
	@$(BIN)/python -m sphinx --builder html --fresh-env --fail-on-warning --keep-going --quiet --conf-dir docs . build/docs
	@echo "Open build/docs/index.html"

bench-overhead: $(READY)  ## Seconds and memory around the main job
	@$(BIN)/python -m tests.benchmarks.overhead

bench-fidelity: $(READY)  ## The papers' figures as distributions over seeds
	@$(BIN)/python -m tests.benchmarks.fidelity

bench-masked-loss: $(READY)  ## Masked losses against one prediction per feature
	@$(BIN)/python -m tests.benchmarks.masked_loss

bench-alternatives: $(READY)  ## Alternative feature sets against the author's package; TABLES=folder
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps alfese==1.1.0
	@$(BIN)/python -m tests.benchmarks.alternatives $(TABLES)

bench-certified: $(READY)  ## How often certified sets lose too much, on made-up tables; OPTIONS="--trials 20"
	@$(BIN)/python -m tests.benchmarks.certified $(OPTIONS)

bench-choice: $(READY)  ## The default method against what people use today; TABLES=folder MODELS=lightgbm,mlp OPTIONS=--summary
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps boruta==0.4.3
	@$(BIN)/python -m tests.benchmarks.choice $(TABLES) $(if $(MODELS),--models $(MODELS)) $(OPTIONS)

bench-choice-cost: $(READY)  ## CPU seconds of a selection against RFECV and SelectFromModel; TABLES=folder
	@$(BIN)/python -m tests.benchmarks.choice_cost $(TABLES)

bench-verdict: $(READY)  ## How often the verdict of a default selection is wrong, on made-up tables; OPTIONS="--trials 20"
	@$(BIN)/python -m tests.benchmarks.verdict $(OPTIONS)

bench-gate: $(READY)  ## How often a year of nights changes the promoted set; OPTIONS="--rows 2000"
	@$(BIN)/python -m tests.benchmarks.gate $(OPTIONS)

bench-dfs: $(READY)  ## Differentiable selection against the paper's recurrence in torch; TABLES=folder
	@$(BIN)/python -m tests.benchmarks.dfs $(TABLES)

bench-pefs: $(READY)  ## PEFS against plain training of its network, and what it keeps
	@$(BIN)/python -m tests.benchmarks.pefs

bench-boruta: $(READY)  ## What boruta confirms beside the package Boruta, which is to be installed first
	@$(BIN)/python -m tests.benchmarks.boruta

bench-scale: $(READY)  ## Memory, CPU and bytes of each stage on 1.5 and 15 million rows; OPTIONS="--rows 400000 1600000"
	@$(BIN)/python -m tests.benchmarks.scale $(OPTIONS)

bench-schedule: $(READY)  ## Minutes of a run on 1 to 64 simulated workers, and the limit that binds; OPTIONS="--rows 150000000"
	@$(BIN)/python -m tests.benchmarks.schedule $(OPTIONS)

bench-doors: $(READY)  ## Memory of reading a table by each source, beside one Parquet file
	@$(BIN)/python -m tests.benchmarks.doors

bench-eta: $(READY)  ## How right the time left is that a run shows
	@$(BIN)/python -m tests.benchmarks.eta

bench-published: $(READY)  ## Our defaults beside the form of a method's paper; METHOD=gbmo SEEDS=5
	@$(BIN)/python -m tests.benchmarks.published $(METHOD) $(SEEDS)

reproduce: $(READY)  ## An experiment of a paper over seeds, or the list of them; EXPERIMENT=name TABLE=folder SEEDS=20
	@$(BIN)/python -m tests.benchmarks.papers $(EXPERIMENT) $(if $(TABLE),--table "$(TABLE)") --seeds $${SEEDS:-20}

setup: $(READY)  ## The virtual environment only

lock: $(READY)  ## Renew requirements.lock, with hashes, from what is installed
	@{ sed -n '/^#/p' requirements.lock; \
	  $(BIN)/pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//' \
	  | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-deps --generate-hashes --no-header --no-annotate --no-strip-extras -; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock

audit: $(READY)  ## Known vulnerabilities of the locked versions
	@$(BIN)/python -m tests.audit

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) build docs/gallery src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): requirements.lock torch-cpu.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "chaffinch needs Python 3.11 or newer but %s is %d.%d; name another with make PYTHON=..." % (sys.executable, v[0], v[1]))'
	@echo "Setting up $(VENV) (2 to 5 minutes, once): torch first, then the other packages"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r torch-cpu.lock 2> /dev/null || true
	@echo "Installing the packages of requirements.lock"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@# the CUDA libraries of torch, where its wheel needs them
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -o '^torch==[0-9.]*' requirements.lock)"
	@touch $@
