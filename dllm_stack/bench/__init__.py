"""`dllm-stack bench`: load for a server that speaks OpenAI's API or SGLang's, and what became of it.

Figures have the names and definitions of `sglang.bench_serving`, whose table is printed; those of blocks are
beside them. Everything that is sent follows from the seed.
"""
