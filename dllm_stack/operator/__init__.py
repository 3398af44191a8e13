"""`dllm-stack queue`: what operators see of the queue, and what they do to it."""
