# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Entry point of this repository: `make` prints the first steps, `make help` lists the targets.
# Installations go to .venv and products to .cache. Missing system packages are installed with apt.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := begin

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PYTHONUNBUFFERED := 1

PYTHON := .venv/bin/python
TYPED := plugins tests tools $(sort $(dir $(wildcard roles/*/files/*.py)))
# `make molecule SCENARIO=name` runs one.
SCENARIO ?= $(filter-out default,$(patsubst molecule/%/molecule.yml,%,$(wildcard molecule/*/molecule.yml)))

# Three workers for two cores, because about one test in three waits for a process.
WORKERS = $$(( ($$(nproc) * 3 + 1) / 2 ))

.PHONY: begin
begin:
	@echo "  make setup  install what serves a model on a DGX Spark, and print the command"
	@echo "  make demo   see it without one: a simulated Spark, in minutes"
	@echo "  make test   test it all, in half an hour"
	@echo
	@echo "make help lists the rest."

## For users

.PHONY: help
help:  ## List the targets
	@awk -F ':.*## ' '/^## / {print (n++ ? "\n" : "") substr($$0, 4)} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' \
	  $(MAKEFILE_LIST)
	@echo
	@echo "TWIN=LETTER uses another simulated Spark: TWIN=c make demo"

.PHONY: setup
setup:  ## Install Ansible into .venv and write inventory/hosts.yml from the example
	@tools/environment.sh
	@test -n "$$(env -u ANSIBLE_CONFIG ansible-doc -t callback dgx_spark.speculative.story 2>/dev/null)" || { \
	  echo "Ansible, called in $(CURDIR), does not find this collection, and no playbook would run. Ansible ignores the ansible.cfg of a"; \
	  echo "directory that everybody may write to (chmod o-w $(CURDIR)), and collections/ needs its links, which git makes."; exit 1; } >&2
	@test -e inventory/hosts.yml || { cp inventory/hosts.yml.example inventory/hosts.yml; \
	  echo "inventory/hosts.yml now says: one Spark, this machine. Edit it to name others."; }
	@echo "Ready. Next:"
	@echo "  . .venv/bin/activate && ansible-playbook playbooks/single_eagle3.yml -K    # -K asks for the sudo password, once"

DEMO = ansible-playbook -i .cache/twin/$(addsuffix /,$(TWIN))inventory.yml playbooks/

.PHONY: demo
demo: engine  ## Watch a playbook deploy the real vLLM on a simulated Spark, and ask it a question (ASK="...")
	@tools/environment.sh demo
	@tools/twin.sh up --vllm
	@$(DEMO)serve.yml -e recipe=tests/twin/recipes/first_light.yml
	@tools/twin.sh ask $(if $(ASK),'$(subst ','\'',$(ASK))')
	@echo
	@echo "This is the real vLLM on this machine's processor, with a small model that is often wrong; the Spark around it is simulated."
	@echo 'Ask it yourself: make demo ASK="Why is the sky blue?"'
	@echo "Run a playbook on it: . .venv/bin/activate && $(DEMO)status.yml"
	@echo "Remove it: make demo-down"

.PHONY: demo-page
demo-page: engine  ## Watch single_eagle3.yml on a simulated Spark, with a stub of TensorRT-LLM, which needs a GPU
	@tools/environment.sh demo
	@tools/twin.sh up
	@$(DEMO)single_eagle3.yml
	@echo "The simulated Spark still serves. Log in with tools/twin.sh shell, or run a playbook, for example"
	@echo "  . .venv/bin/activate && $(DEMO)status.yml"
	@echo "Remove it: make demo-down"

.PHONY: demo-two-sparks
demo-two-sparks: engine  ## Watch the shipped playbook serve a model on two simulated Sparks with a cable
	@tools/environment.sh demo
	@tools/twin.sh up --sparks 2
	@$(DEMO)two_sparks.yml
	@echo "The simulated Sparks go on serving. Have a look: tools/twin.sh shell 2, or any playbook, such as"
	@echo "  . .venv/bin/activate && $(DEMO)status.yml"
	@echo "Remove them: make demo-down"

GONE = The simulated Sparks are gone. Their images stay in Docker for the next time; make clean removes those, too.

.PHONY: demo-down
demo-down:  ## Take the simulated Spark down again
	@if test -x $(PYTHON) && tools/engine.sh answers; then tools/twin.sh down $(IMAGES) && echo "$(GONE)"; fi
	@tools/engine.sh down

## For contributors

.PHONY: dev
dev:  ## Install the development tools into .venv
	@tools/environment.sh demo dev

.PHONY: engine
engine:  ## Make sure that a Docker Engine answers
	@tools/engine.sh up

.PHONY: check
check: dev  ## Lint and unit tests: some minutes, no Docker
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint units

.PHONY: test
test: dev  ## Every main path: check, sanity, build, every scenario, the core of tests/system; two at a time, with wall times
	@$(PYTHON) -m tools.test

.PHONY: faults
faults: dev  ## Golden files, then what goes wrong, on the twin (tests/system); two at a time: before a change of what it covers lands
	@$(PYTHON) -m tools.test faults

.PHONY: engines
engines: export TWIN ?= a
engines: dev engine  ## The real vLLM answers modules and clients, is measured, killed and cut on the twin (CASES="words of pytest -k")
	@ran=; failed=; for part in tests/engines tests/system/*_vllm; do \
	  code=0; pytest --verbose --durations 5 "$$part" -k "$(CASES)" || code=$$?; \
	  case $$code in 0) ran=1;; 5) ;; *) ran=1 failed=1;; esac; \
	done; tools/twin.sh down; \
	test -n "$$ran" || { echo "No case has the words '$(CASES)'. Run without CASES, or with other words."; exit 1; } >&2; test -z "$$failed"

.PHONY: verdicts
verdicts: dev  ## Ask the real vLLM of four releases about every recipe and configuration, 10 GB (VERDICTS=DIRECTORY has them)
	@PYTHONPATH=collections $(PYTHON) -m tests.verdicts
	@pytest --quiet tests/verdicts

.PHONY: soak
soak: dev engine  ## Random faults on the twin while clients stream, and a verdict (MINUTES=15, SEED=1, SPARKS=1 or 2, FRESH=1, DETACH=1)
	@$(PYTHON) -m tests.soak --minutes $(or $(MINUTES),15) --seed $(or $(SEED),1) --sparks $(or $(SPARKS),1) \
	  $(if $(FRESH),--fresh) $(if $(DETACH),--detach)

.PHONY: power
power: dev engine  ## Cut the power of a virtual machine while the collection writes, and a verdict (MINUTES=60, SEED=1, FRESH=1)
	@tools/power.sh --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1) $(if $(FRESH),--fresh)

.PHONY: lint
lint: dev  ## Format, types, imports, YAML, Ansible, changelog, spelling, pages, language, field reports, figures of the house
	ruff format --check .
	ruff check .
	mypy $(TYPED)
	PYTHONPATH=collections:roles/speculative_serve/files lint-imports --no-cache --no-logo
	yamllint --strict .
	ansible-lint
	antsibull-changelog lint
	codespell .
	rumdl check --no-cache --quiet .
	$(PYTHON) -m tools.check_files
	$(PYTHON) -m tools.check_language
	$(PYTHON) -m tools.check_reports
	PYTHONPATH=collections $(PYTHON) -m tools.tables --check
	$(PYTHON) -m tools.house

.PHONY: units
units: dev  ## Unit tests
	pytest --quiet --numprocesses $(WORKERS) --dist worksteal --durations 5 --durations-min 1 tests/unit

.PHONY: docs
docs: dev  ## Write the tables of docs/ and of the roles from the data that they show
	@PYTHONPATH=collections $(PYTHON) -m tools.tables

.PHONY: sanity
sanity: dev  ## ansible-test sanity on the built collection
	@tools/sanity.sh

.PHONY: build
build: dev  ## Build the collection, look at what is in it, and import it as Galaxy would
	@rm -rf .cache/dist && mkdir -p .cache/dist
	ansible-galaxy collection build --output-path .cache/dist
	$(PYTHON) -m tools.check_artifact .cache/dist/*.tar.gz
	cd .cache/dist && env -u ANSIBLE_CONFIG ../../$(PYTHON) -m galaxy_importer.main *.tar.gz

.PHONY: molecule
molecule: dev engine  ## Every scenario against the twin, or one (SCENARIO=NAME)
	@tools/twin.sh up
	@for scenario in $(SCENARIO); do tools/molecule.sh "$$scenario"; done
	@tools/twin.sh down

.PHONY: perf
perf: dev engine  ## Print the figures: round trips, bytes, time against the steps by hand, and AIPerf's (AIPERF=PROGRAM)
	@tools/twin.sh up
	@missed=0; for part in tests.perf tests.perf_two_sparks; do PYTHONPATH=collections $(PYTHON) -m $$part || missed=1; done; exit $$missed

.PHONY: clean
clean: IMAGES = --images
clean: GONE = The simulated Sparks and their images are gone.
clean: demo-down  ## Remove what these targets produced, .venv included; inventory/hosts.yml stays
	rm -rf .ansible .cache .mypy_cache .pytest_cache .ruff_cache .venv
