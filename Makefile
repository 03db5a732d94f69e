# Every verb a person or CI needs. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
# KUBERNETES=1.36 runs a target on a control plane of that minor, which is built when it is missing.
ifdef KUBERNETES
export SECONDARY_SCHEDULER_KUBERNETES := $(KUBERNETES)
endif
DEMO := devcluster.demo $(if $(filter command,$(origin CONTAINERS)),--containers "$(CONTAINERS)")
# A CLUSTER or CONTAINERS that the environment happens to have does not change the demo.
ifneq ($(filter command,$(origin CLUSTER)),)
ifneq ($(filter command,$(origin CONTAINERS)),)
$(error CONTAINERS=... is about the local cluster that the demo builds: give it without CLUSTER=...)
endif
DEMO := devcluster.demo.elsewhere $(if $(filter-out kubeconfig,$(CLUSTER)),--kubeconfig "$(CLUSTER)") $(if $(CONTEXT),--context "$(CONTEXT)") $(if $(IMAGE),--image "$(IMAGE)") $(if $(YES),--yes)
endif
.PHONY: help setup site olm schemas harm harm-coverage mutants curves dashboard image lock browser screenshots demo clean-demo test test-all check format unit integration e2e conformance next upstream upstream-e2e upstream-perf matrix faults bench bench-smoke size clean

help:  ## This list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

setup: $(VENV)/.ready  ## Python environment from the lock file

$(VENV)/.ready: requirements-dev.txt pyproject.toml devcluster/pyproject.toml
	@PYTHON="$(PYTHON)" tools/setup.sh

demo: setup  ## The main job for real: local cluster, pulumi up, 60 pods placed by load; CLUSTER=kubeconfig takes a cluster of yours, CONTAINERS=podman runs ours in containers
	@$(BIN)/python -m $(DEMO)

clean-demo: setup  ## End the demo's processes and remove its state
	@$(BIN)/secondary-scheduler cluster down --name demo

test: setup  ## Everything that must pass before a change lands
	@$(BIN)/python tools/run_tests.py check unit live bench-smoke

test-all: setup  ## As test, with the long runs
	@tools/chromium.sh
	@FULL=1 $(BIN)/python tools/run_tests.py check unit browser live upstream bench-smoke

check: setup  ## Lint, format, types, import contracts
	@$(BIN)/python tools/run_tests.py check

format: setup  ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

unit integration e2e: setup  ## One part of the tests
	@$(BIN)/python tools/run_tests.py $@

conformance: setup  ## N=2000 random cases against the real kube-scheduler; KUBERNETES=1.36 chooses its minor
	@$(BIN)/python -m tests.conformance --cases $(or $(N),2000)

next: setup  ## What the newest alpha, beta, candidate or release of Kubernetes changes: the work list of the next minor; ABOVE=1.37.0 what a known one did
	@$(BIN)/python -m tests.conformance.upcoming $(if $(N),--cases $(N)) $(if $(ABOVE),--above $(ABOVE))

upstream: setup  ## Upstream's own integration tests against ours (half an hour); SUITE=scheduler-plugins, KUBERNETES=1.37, PACKAGES=filters,scoring, MODE=safe choose
	@$(BIN)/python -m tests.upstream $(if $(SUITE),--suite $(SUITE)) $(if $(PACKAGES),--packages $(PACKAGES)) $(if $(MODE),--mode $(MODE)) $(if $(RECORD),--record $(RECORD))

upstream-e2e: setup  ## Kubernetes' e2e specs of scheduling against ours, on simulated nodes (an hour); TEST=PATTERN, MODE=safe choose
	@$(BIN)/python -m tests.upstream.e2e $(if $(TEST),--test '$(TEST)') $(if $(MODE),--mode $(MODE)) $(if $(RECORD),--record $(RECORD))

upstream-perf: setup  ## kube-scheduler's own benchmark, scheduler_perf, with ours beside it (hours); WORKLOADS=PATTERN chooses
	@$(BIN)/python -m tests.upstream.perf $(if $(WORKLOADS),--workloads '$(WORKLOADS)') $(if $(RECORD),--record $(RECORD))

matrix: setup  ## Demo, operator, scheduler, a short race and N=100 random cases on each minor of Kubernetes (hours); MINORS="1.35 1.36" chooses
	@$(BIN)/python tools/matrix.py $(or $(MINORS),$(KUBERNETES)) $(if $(N),--cases $(N))

faults: setup  ## The fault matrix and N=1000 random mixes of faults (hours); goes on where it was ended, from .faults.jsonl; SEED=S chooses the first
	@$(BIN)/python -m tests.faults --all --mix $(or $(N),1000) --seed $(or $(SEED),1) --record $(or $(RECORD),.faults.jsonl) --resume

bench: setup  ## The race at 5,000 nodes (hours); SCENARIO=S, NODES=N, ROUNDS=N choose
	@$(BIN)/python -m benchmarks core
	@$(BIN)/python -m benchmarks race --resume --rounds $(or $(ROUNDS),3) $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(NODES),--nodes $(NODES))

bench-smoke: setup  ## A minute of the race; fails when a ratio to kube-scheduler falls short
	@$(BIN)/python tools/run_tests.py bench-smoke

size: setup  ## Lines and files, forms of one thing, files that a pod, a setting and a sample pass through
	@$(BIN)/python tools/size.py

olm: setup  ## Render bundle and catalog for OLM (deploy/olm) anew from the components
	@$(BIN)/python tools/olm_bundle.py

schemas: setup  ## Write what is derived from the settings' models anew: JSON Schemas, Pulumi.yaml, Args, the component package
	@$(BIN)/python tools/schemas.py

harm: setup  ## Write the map of the lines that can do harm (docs/security.md) anew from the code
	@$(BIN)/python tools/harm.py

harm-coverage: setup  ## Branch coverage of the functions that can do harm (minutes)
	@$(BIN)/python tools/harmcoverage.py

mutants: setup  ## Mutation testing of the functions that can do harm (half an hour); NUMBER=300 (0: all), SEED=1 choose
	@nice -n 10 $(BIN)/python tools/mutants.py --lines $(if $(NUMBER),--number $(NUMBER)) $(if $(SEED),--seed $(SEED))

curves: setup  ## Draw the plugins' scores (docs/images/score-curves.svg) anew from their formulas
	@$(BIN)/python tools/score_curves.py

dashboard: setup  ## Write the Grafana dashboard (deploy/grafana) anew from the table of panels
	@$(BIN)/python -m tools.dashboard

image: setup  ## Build the image with podman, and let it place a pod; BASE=IMAGE chooses what it stands on; PART=scheduler: the scheduler alone; PART=cli: the command line's
	@$(BIN)/python tools/image.py $(if $(PART),--part $(PART)) $(if $(BASE),--base $(BASE)) $(if $(BUILDER),--builder $(BUILDER)) $(if $(IMAGE_PYTHON),--python $(IMAGE_PYTHON))
	@$(if $(PART),,SECONDARY_SCHEDULER_IMAGES=built $(BIN)/python -m pytest -q tests/integration/image)

site: setup  ## Build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site: in build/site; with search: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8000"

browser: setup  ## Tests of the pages of `ui` in Chromium, which is installed when it is missing (Debian; needs root)
	@tools/chromium.sh
	@$(BIN)/python -m pytest -q tests/browser

screenshots: setup  ## Take the pictures of docs/ui.md anew, in Chromium
	@tools/chromium.sh
	@$(BIN)/python tools/screenshots.py

lock: setup  ## Resolve the dependencies anew into requirements.txt and requirements-dev.txt
	@tools/lock.sh

clean:  ## Remove the environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
