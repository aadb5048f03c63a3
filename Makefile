# `make` lists the targets. PYTHON selects the interpreter for .venv; CORES sets snakemake's cores.
# TORTURE holds options of the torture, as TORTURE="--kills 20 --inputs 0 --seed 1".
ifndef PYTHON
NEW_ENOUGH = $(shell $(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(1))
PYTHON := $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(call NEW_ENOUGH,$(name))) python3)
endif
# Snakemake does not start without a cache.
ifneq ($(shell test -w "$$HOME" && echo yes),yes)
export XDG_CACHE_HOME ?= $(CURDIR)/.snakemake/cache
endif
CORES ?= 1
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help env dev speedup all report test kernels strangers torture mutate lint format docs linkcheck publish pins clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: ## build .venv; with a GPU, install the CuPy that fits
	@"$(PYTHON)" -I scripts/make_env

dev: ## the same, with the packages of tests and checks
	@"$(PYTHON)" -I scripts/make_env --dev

speedup: env ## train the paper's grid and print its speedup table
	$(BIN)/snakemake --cores $(CORES) results/tables/speedup.csv
	@$(BIN)/python scripts/show_table results/tables/speedup.csv

all: env ## every table and figure of config/grid.yaml
	$(BIN)/snakemake --cores $(CORES)

report: all ## report.html, with every table and figure
	$(BIN)/snakemake --cores $(CORES) --report report.html

test: dev ## the tests; those that need a GPU are skipped without one
	$(BIN)/python -m pytest

kernels: dev ## the tests of kernels in more shapes, for more GPUs
	$(BIN)/python -m pytest -m kernels --dist load --hypothesis-profile thorough

strangers: dev ## some tests as on another machine: CPU, folder, user, language, time zone
	$(BIN)/python tests/strangers.py --quick

torture: dev ## kills and malformed inputs, for an hour: counts of what was lost or accepted
	$(BIN)/python tests/faults/torture.py $(TORTURE)

mutate: dev ## plant faults in the engine and count those that tests notice: hours, or SAMPLE=200 of them
	$(BIN)/python tests/mutation $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

lint: dev ## formatting, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy

format: dev ## format everything
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile workflow

docs: env ## the documentation as a site, in docs/_build/html
	@$(BIN)/pip install --quiet --disable-pip-version-check -r envs/requirements-docs.txt
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

linkcheck: docs ## ask the network for every external link of the documentation
	$(BIN)/sphinx-build --quiet -b linkcheck docs docs/_build/linkcheck

publish: env ## copy this device's results to results/published/
	$(BIN)/python scripts/publish

pins: dev ## recompile envs/*.txt from envs/*.in
	cd envs && for part in "" -build -cuda12 -cuda13 -nvrtc -dev -peers -slurm -docs; do \
	    [ "$$part" = -build ] && unsafe=--allow-unsafe || unsafe=; \
	    ../$(BIN)/pip-compile --quiet --upgrade $$unsafe --strip-extras --no-header --no-emit-index-url \
	        --no-emit-trusted-host --no-emit-find-links --annotation-style=line \
	        -o requirements$$part.txt requirements$$part.in || exit; \
	done

clean: ## remove .venv and all results except the published ones
	rm -rf .venv .snakemake report.html docs/_build docs/_generated
	find results -mindepth 1 -maxdepth 1 ! -name published -exec rm -rf {} +
