"""`dllm-stack preflight`: what a cluster lacks for an installation, before there is one. It only reads."""
