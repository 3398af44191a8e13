"""SGLang's own kernel for a mixture of experts, tuned for LLaDA2-mini on this GPU.

`python -m loadtest.gpu.moe --out configs/moe` writes the files that SGLang looks for, and prints what a layer
of experts costs without and with them. See `__main__`.
"""
