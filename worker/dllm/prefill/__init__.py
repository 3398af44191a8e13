"""Prompts many blocks a forward.

All of a prompt's blocks are known, yet SGLang computes one of them a round, and denoises nothing meanwhile.
Here a prompt stays one request to the scheduler, with an extent of many blocks, so that allocation, prefix
cache and commitment are SGLang's own; only the worker cuts the extent into rows of one block over the same
KV cache. In every layer the KV of all rows is written before attention reads any, so a row sees exactly
the blocks before it, as if they had been computed one by one.

- `limits`: how many rows a forward may have, and whether at all in this process
- `request`: where the versions of SGLang's request differ
- `budget`, `rounds`: the scheduler's side: how many blocks of which prompt
- `rows`, `logits`, `cache_order`: the worker's side: cutting, running, putting together
- `self_test`, `comparison`: whether all of it holds for this model on this machine; else stock behaviour
"""
