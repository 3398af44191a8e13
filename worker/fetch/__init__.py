"""`dllm-stack fetch`: a model's checkpoint into the Hugging Face cache, before its worker starts."""
