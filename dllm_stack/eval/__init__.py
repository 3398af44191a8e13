"""`dllm-stack eval`: how many questions a model answers right, counted as `sglang.test.few_shot_gsm8k` does.

The questions are in GSM8K's format. `arithmetic.jsonl` is a set of our own, which the demo model can answer.
"""
