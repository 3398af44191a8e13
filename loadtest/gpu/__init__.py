"""On a GPU: stock SGLang's algorithms against ours, side by side on one card, in turns; and the whole stack.

- `steps`: what a denoise step costs.
- `prompts`: time to the first block, and the gap that a long prompt tears into a running stream.
- `continuation`: whether an answer that is cut at a block goes on as it would have, and what the demo
  model's answers are worth in each mode.
- `tensor`: one GPU against two that share the model, and two workers against one.
- `moe`: files for SGLang's kernel for a mixture of experts, tuned for this GPU.
- `stack`: the whole stack against its own engine, and against stock with one running request.

`steps`, `prompts` and `stack` run LLaDA2-mini's architecture with random weights. No token is ever sure, so
every step commits one token a request, or edits some, or each takes a whole block, as is asked: the same work
for every variant. That compares engines and says nothing about a trained model's speed.

`--device cpu --checkpoint FOLDER` tries the commands where there is no GPU; its figures mean nothing.
"""
