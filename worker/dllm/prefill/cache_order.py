"""FlashInfer: KV is written before attention reads it.

Its ragged path reads a row's own keys from the forward, those of earlier blocks from the cache, and writes
the cache only afterwards. Rows of one prompt would read what an earlier request left there. Where the
model's fused rotary kernel has already written, this does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TARGET = "sglang.srt.layers.attention.flashinfer_backend.FlashInferAttnBackend.forward_extend"


def write_first(
    original: Callable[..., Any],
    backend: Any,
    q: Any,
    k: Any,
    v: Any,
    layer: Any,
    forward_batch: Any,
    save_kv_cache: bool = True,
    **options: Any,
) -> Any:
    """AROUND hook; also active while graphs are captured."""
    if save_kv_cache and k is not None and backend.is_dllm_model and backend.forward_metadata.use_ragged:
        where = _location(forward_batch, layer, backend.forward_metadata.swa_out_cache_loc)
        backend.token_to_kv_pool.set_kv_buffer(layer, where, k, v, *backend._kv_write_scales(layer))
        save_kv_cache = False
    return original(backend, q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **options)


def _location(forward_batch: Any, layer: Any, sliding: Any) -> Any:
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc

    if hasattr(KVWriteLoc, "for_layer"):  # 0.5.23
        return KVWriteLoc.for_layer(forward_batch, layer, swa_loc=sliding)
    return KVWriteLoc(forward_batch.out_cache_loc, sliding)
