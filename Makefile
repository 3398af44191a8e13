PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
CLIENTS := $(VENV)/clients
OLDEST := $(VENV)/sglang-0.5.17
QUEUE_RUNS ?= 1000

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:.*## / {print $$1}' Makefile)

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Create .venv with the locked, CPU-only packages

$(VENV)/.installed: requirements/cpu.txt requirements/install.sh pyproject.toml
	@requirements/install.sh $(PYTHON) $(VENV)
	@touch $@

# The tests run the queue on Redis 7 too.
$(VENV)/bin/redis-server: requirements/redis_server.sh $(VENV)/.installed
	@requirements/redis_server.sh $(VENV)

# And the page in a browser.
$(VENV)/bin/chromium: requirements/chromium.sh $(VENV)/.installed
	@requirements/chromium.sh $(VENV)

# And the rules by Prometheus' own tools.
$(VENV)/.prometheus: requirements/prometheus.sh requirements/debian.sh $(VENV)/.installed
	@requirements/prometheus.sh $(VENV)
	@touch $@

# And the charts by Helm 4 and 3.
$(VENV)/.helm: requirements/helm.sh $(VENV)/.installed
	@requirements/helm.sh $(VENV)
	@touch $@

# And the engine by the oldest SGLang that the extension supports.
$(OLDEST)/.installed: requirements/sglang-0.5.17.txt $(VENV)/.installed
	@echo "setup: sglang 0.5.17, for the tests"
	@rm -rf $(OLDEST)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
		--target $(OLDEST) --requirement $<
	@touch $@

# Other people's clients, each kind in a folder of its own.
$(CLIENTS)/%/.installed: requirements/clients/%.txt requirements/clients.sh $(VENV)/.installed
	@requirements/clients.sh $(VENV)/bin/python $* $(CLIENTS)/$*
	@touch $@

up: setup ## Run the whole stack on this machine: gateway, router, worker, queue and engine
	@$(VENV)/bin/dllm-stack up

monitoring: $(VENV)/.prometheus ## What `up --with-monitoring` starts: Prometheus, Alertmanager, redis_exporter

charts: $(VENV)/.helm ## Write what of the charts is generated: schemas, the tables of docs/helm.md, golden renders
	@$(VENV)/bin/python -m deploy.charts

lint: setup ## Style and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

TEST_TOOLS := $(VENV)/bin/redis-server $(VENV)/bin/chromium $(VENV)/.prometheus $(VENV)/.helm
TEST_TOOLS += $(OLDEST)/.installed $(CLIENTS)/sdks/.installed $(CLIENTS)/schemas/.installed

test: lint $(TEST_TOOLS) ## Style, types, and every test, in TEST_PROCESSES (3)
	@$(VENV)/bin/python -m pytest --numprocesses $(or $(TEST_PROCESSES),3) --dist loadscope

bench: setup ## What the stack costs over the bare engine, keys and limits too: TTFT and where it goes, end to end, memory
	@$(VENV)/bin/python -m loadtest.overhead

show-fresh-clone: ## A clone in an empty folder: make up answers, its snippets work, Ctrl-C leaves nothing
	@$(PYTHON) tests/fresh_clone.py

show-count: setup ## The stack counts from 1 to 128 in a stream: the numbers, the time, the tokens a forward
	@$(VENV)/bin/python -m loadtest.count

show-demo: setup ## What the demo model can do, in six ways of decoding (ITEMS=8: 3 minutes)
	@$(VENV)/bin/python -m loadtest.demo $(if $(ITEMS),--items $(ITEMS)) $(if $(JSON),--json $(JSON))

show-agreement: setup ## 20 prompts asked of the engine here, in float32: the same ids as of the engine on an H200?
	@mkdir -p .run
	@$(VENV)/bin/python -m models.demo.agreement run models/demo/checkpoint .run/cpu.json --device cpu --dtype float32 \
		--prompts models/demo/h200/float32.json
	@for record in models/demo/h200/*.json; do \
		$(VENV)/bin/python -m models.demo.agreement compare models/demo/checkpoint .run/cpu.json $$record || exit; done

show-conformance: setup $(CLIENTS)/sdks/.installed ## The newest OpenAI SDKs, Python and Node, on every row of the API's table, streaming and not
	@DLLM_TEST_CONFORMANCE=all $(VENV)/bin/python -m pytest tests/conformance/test_table.py tests/stack/test_conformance.py

show-schemas: setup $(CLIENTS)/schemas/.installed ## schemathesis on the served OpenAPI document: no 500, and every answer as described
	@DLLM_TEST_SCHEMAS=100 $(VENV)/bin/python -m pytest tests/conformance/test_schemas.py

show-mutations: setup ## 10,000 bodies, right ones and broken ones, to a gateway: what reaches the worker is well-formed
	@DLLM_TEST_MUTATIONS=10000 $(VENV)/bin/python -m pytest tests/conformance/test_mutations.py

show-clients-of-others: setup $(CLIENTS)/others/.installed ## LangChain, LiteLLM and Vercel's AI SDK: a streamed chat and a tool call each
	@DLLM_TEST_CLIENTS=1 $(VENV)/bin/python -m pytest tests/stack/test_clients_of_others.py

show-playground: setup $(VENV)/bin/chromium ## The page at /, in headless Chromium: alone, and on the whole stack
	@$(VENV)/bin/python -m pytest tests/playground tests/stack/test_playground.py

show-seeds: setup ## The two prompts of the SGLang dLLM announcement, by curl to /generate
	@$(VENV)/bin/python -m pytest tests/stack/test_seed_prompts.py

show-bench-serving: setup ## sglang.bench_serving against the gateway, three backends
	@$(VENV)/bin/python -m pytest tests/stack/test_bench_serving.py

show-bench-against: setup $(CLIENTS)/aiperf/.installed ## dllm-stack bench beside sglang.bench_serving and aiperf, same server, in turns (6 minutes)
	@$(VENV)/bin/python -m loadtest.bench_against

show-disconnect: setup ## Clients that disappear: the engine stops, slots are free, the queue is empty
	@$(VENV)/bin/python -m pytest tests/stack/test_disconnect.py

show-kill: setup ## kill -9 of router, worker, engine and queue under 20 requests: each is answered, as if undisturbed
	@$(VENV)/bin/python -m pytest tests/stack/test_faults.py

show-continuation: setup ## kill -9 of a worker after the third block: another one goes on with the same answer
	@$(VENV)/bin/python -m pytest tests/stack/test_continuation.py

show-keys: setup ## Keys at two gateways: no route without one, timing, revoked within 1 s, Redis loses all: nothing opens
	@$(VENV)/bin/python -m loadtest.keys

show-overload: setup ## 200 requests on a queue of 100: the surplus gets 429 at once
	@$(VENV)/bin/python -m pytest tests/stack/test_overload.py

show-admin: setup ## The admin API on two gateways, pausing and draining: who may, what it does, what it refuses
	@$(VENV)/bin/python -m pytest tests/admin tests/queue/test_pool_orders.py -k "not redis7 and not cluster"

show-properties: setup ## The scripts of queue and limits against plain models: twice QUEUE_RUNS (1,000) random histories
	@DLLM_TEST_QUEUE_RUNS=$(QUEUE_RUNS) $(VENV)/bin/python -m pytest -k valkey \
		tests/queue/test_pool_properties.py tests/limits/test_limit_properties.py

show-chaos: setup ## 1,000 streams while every kind of process is killed and Redis loses its data, on simulators
	@$(VENV)/bin/python -m loadtest.chaos

show-alerts: $(VENV)/.prometheus ## A worker killed, Redis stopped, the queue flooded: the right alerts fire, and no others (7 minutes)
	@$(VENV)/bin/python -m loadtest.alerts

show-dashboards: $(VENV)/.prometheus ## Every expression of dashboards and rules, by a Prometheus over a stack under load
	@$(VENV)/bin/python -m loadtest.dashboards $(OPTIONS)

show-charts: $(VENV)/.helm ## Every chart in every way, by Helm 4 and 3, against Kubernetes 1.29 to 1.37 and the Pod Security Standard
	@$(VENV)/bin/python -m deploy.charts.show

show-peers: setup $(PEERS)/.installed ## This stack beside six other gateways, same simulator, in turns: times, CPU, overload, faults (10 minutes)
	@mkdir -p .run
	@$(VENV)/bin/python -m loadtest.versus --json $(or $(JSON),.run/peers.json) $(OPTIONS)

show-fairness: setup $(PEERS)/.installed ## A flood beside a light tenant, here and behind two other gateways
	@$(VENV)/bin/python -m loadtest.fairness

$(PEERS)/.installed: loadtest/peers.txt loadtest/peers.sh
	@loadtest/peers.sh $(PYTHON) $(PEERS)

show-helm-lifecycle: setup $(VENV)/.helm ## Helm 4, Helm 3 and kubectl install, upgrade, roll back, test and uninstall, on a fake of the API
	@$(VENV)/bin/python -m pytest -v tests/helm/test_lifecycle.py

show-pods: $(VENV)/.helm $(VENV)/bin/redis-server ## Every container of the cpu-dev chart as a process, as its manifest says: probes, a chat, SIGTERM
	@DLLM_TEST_PODS=1 $(VENV)/bin/python -m pytest tests/helm/test_fake_kubelet.py tests/helm/test_pods.py

show-rollout: $(VENV)/.helm $(VENV)/bin/redis-server ## Gateways, routers and workers upgraded under 50 streams, as the chart says: none is lost
	@DLLM_TEST_ROLLOUT=1 $(VENV)/bin/python -m pytest tests/helm/test_rollout.py

show-fuzz: setup $(OLDEST)/.installed ## 10,000 random requests to an engine of each SGLang, 1,000 to a gateway: no hang, no 500
	@DLLM_TEST_FUZZ=10000 DLLM_TEST_FUZZ_SEED=$(or $(SEED),1) $(VENV)/bin/python -m pytest \
		tests/engine/test_fuzz.py tests/stack/test_fuzz.py

show-limits: setup ## Eight clients a tenant over two gateways: limits used up, none exceeded, Redis' data lost (6 minutes)
	@$(VENV)/bin/python -m loadtest.limits

show-clients: setup ## 500 slow readers and 500 clients that vanish beside 20 honest ones: times, slots, memory
	@$(VENV)/bin/python -m loadtest.clients

show-metrics: setup ## What the histograms say of a known load against what its clients have measured
	@$(VENV)/bin/python -m loadtest.metrics

show-metrics-cost: setup ## CPU of a gateway for a request with and without metrics, logs and traces
	@$(VENV)/bin/python -m loadtest.metrics.cost

show-simulator: setup ## The simulator beside the engine it simulates, within 10 %, and what one process of it can do (6 minutes)
	@$(VENV)/bin/python -m loadtest.simulator.show $(OPTIONS)

show-profile: setup ## CPU time of a request in each process, and where it goes (BEFORE=FOLDER: beside other code; 4 minutes)
	@$(VENV)/bin/python -m loadtest.hotpath $(if $(BEFORE),--before $(BEFORE)) $(OPTIONS)

show-scale: $(VENV)/bin/redis-server ## What the queue costs with 1,000 to 1,000,000 jobs waiting; how fast a router is
	@$(VENV)/bin/python -m loadtest.scale --server $(VENV)/bin/redis-server

show-image: setup ## The image of gateway and router, built and run without a registry (root, buildah, debootstrap)
	@$(VENV)/bin/python -m deploy.images.show

show-tensor: setup $(OLDEST)/.installed ## Two ranks on two cores: the ids of one, alone and mixed; a rank that dies, hangs or differs (9 minutes)
	@DLLM_TEST_TENSOR=1 $(VENV)/bin/python -m pytest tests/engine/tensor

show-decoding: setup $(OLDEST)/.installed ## Every decoding algorithm against its plain form, alone and mixed, on both SGLangs
	@$(VENV)/bin/python -m pytest tests/engine/decoding

show-prompts: setup $(OLDEST)/.installed ## Prompts many blocks a forward against stock, ids and KV, on both SGLangs
	@$(VENV)/bin/python -m pytest tests/engine/prefill

# On a machine with an H200 and SGLang; PYTHON is theirs.
bench-gpu-steps: ## A denoise step, stock SGLang and ours in turns, batches of 1 to 64: on an H200
	@mkdir -p .run
	@$(PYTHON) -m loadtest.gpu.steps --out $(or $(JSON),.run/gpu-steps.json) $(OPTIONS)

bench-gpu-prompts: ## Time to the first block by prompt length, and what a long prompt does to a stream: on an H200
	@mkdir -p .run
	@$(PYTHON) -m loadtest.gpu.prompts --out $(or $(JSON),.run/gpu-prompts.json) $(OPTIONS)

bench-gpu-kernel: ## The one read of the logits against torch and the memory: on an H200
	@$(PYTHON) -m loadtest.kernel

bench-gpu-modes: ## The demo model by mode, and whether answers go on identically from a block: on an H200
	@mkdir -p .run
	@$(PYTHON) -m loadtest.gpu.continuation --out $(or $(JSON),.run/gpu-modes.json) $(OPTIONS)

bench-gpu-stack: ## The whole stack, its engine alone and one with a single request: bench_serving's load, on an H200
	@mkdir -p .run
	@$(PYTHON) -m loadtest.gpu.stack --out $(or $(JSON),.run/gpu-stack.json) $(OPTIONS)

bench-gpu-tensor: ## Stock and ours on one GPU and on two, ids, and two workers against one of two GPUs: on two H200s
	@mkdir -p .run
	@$(PYTHON) -m loadtest.gpu.tensor --out $(or $(JSON),.run/gpu-tensor.json) $(OPTIONS)

tune-moe: ## Files for SGLang's kernel for a mixture of experts, tuned for LLaDA2-mini: on an H200
	@$(PYTHON) -m loadtest.gpu.moe --out $(or $(OUT),configs/moe) $(OPTIONS)
