PYTHON ?= python3
VENV := .venv

.DEFAULT_GOAL := help
.PHONY: help setup up lint test

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Create .venv with the locked, CPU-only packages

$(VENV)/.installed: requirements/cpu.txt requirements/install.sh pyproject.toml
	@requirements/install.sh $(PYTHON) $(VENV)
	@touch $@

up: setup ## Run the whole stack on this machine: gateway, router, worker, queue and engine
	@$(VENV)/bin/dllm-stack up

lint: setup ## Style and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

test: lint ## Style, types, and every test
	@$(VENV)/bin/python -m pytest
