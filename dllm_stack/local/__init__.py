"""The whole stack on one machine: `dllm-stack up`."""
