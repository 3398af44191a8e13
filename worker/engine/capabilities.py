"""Finds out from an autoregressive engine which parameters it honours, by asking it for a few tokens each.

What it can depends on how it was built and started: its grammar backend, its way of drawing, its flags.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import Grammar, GrammarKind, Sampling, TokenByToken
from dllm_stack.messages import Decoding
from worker.engine.client import EngineClient, EngineInfo, EngineRefusal, Progress

log = structlog.get_logger()

_PROMPT = [0]
_TOKENS = 16
_BIASED = 1
_GREEDY = Sampling()
_HOTTEST = 2.0

_GRAMMARS = {
    Capability.REGEX: Grammar(kind=GrammarKind.REGEX, text="[0-9]{2}"),
    Capability.EBNF: Grammar(kind=GrammarKind.EBNF, text='root ::= "yes" | "no"'),
    Capability.RESPONSE_FORMAT: Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"type": "boolean"}'),
}
_TAG = Grammar(
    kind=GrammarKind.STRUCTURAL_TAG,
    text='{"type": "structural_tag", "triggers": ["<"],'
    ' "structures": [{"begin": "<a>", "schema": {"type": "boolean"}, "end": "</a>"}]}',
)


class Examination:
    """Of one engine through all its restarts: what has once ended it is not asked again."""

    def __init__(self) -> None:
        self._asking: Capability | None = None
        self._fatal: set[Capability] = set()

    async def capabilities(self, client: EngineClient, info: EngineInfo) -> list[str]:
        """
        Raises:
            EngineFault: it broke; to be called again when it runs again.
        """
        if self._asking is not None:
            log.warning("the engine broke when it was asked", capability=str(self._asking))
            self._fatal.add(self._asking)
        found = []
        for capability in self._worth_asking(info):
            self._asking = capability
            try:
                if await self._has(client, capability):
                    found.append(str(capability))
            except EngineRefusal as refusal:
                log.info("the engine does not honour", capability=str(capability), reason=str(refusal))
            self._asking = None
        return sorted(found)

    def _worth_asking(self, info: EngineInfo) -> Iterator[Capability]:
        for capability in Capability:
            # SGLang asserts that the two do not come together, which would end it.
            seeded = capability is Capability.MIN_P and info.deterministic
            if capability not in self._fatal and not seeded:
                yield capability

    async def _has(self, client: EngineClient, capability: Capability) -> bool:
        match capability:
            case Capability.SEED:
                return await _draws_by_seed(client)
            case Capability.REGEX | Capability.EBNF | Capability.RESPONSE_FORMAT:
                shaped = TokenByToken(grammar=_GRAMMARS[capability])
                answer = await _ask(client, Decoding(sampling=_GREEDY, token_by_token=shaped))
                return answer.finish is not None and answer.finish.type == "stop"
            case Capability.LOGIT_BIAS:
                shaped = TokenByToken(logit_bias={_BIASED: 100})
                answer = await _ask(
                    client, Decoding(ignore_eos=True, sampling=_GREEDY, token_by_token=shaped)
                )
                return _BIASED in answer.token_ids
            case Capability.LOGPROBS:
                shaped = TokenByToken(top_logprobs=2)
                answer = await _ask(
                    client, Decoding(ignore_eos=True, sampling=_GREEDY, token_by_token=shaped)
                )
                return len(answer.logprobs) == len(answer.token_ids)
            case _:
                await _ask(client, _OTHERS[capability])
                return True


_OTHERS = {
    Capability.TEMPERATURE: Decoding(sampling=Sampling(temperature=0.5)),
    Capability.TOP_P: Decoding(sampling=Sampling(temperature=1, top_p=0.5)),
    Capability.TOP_K: Decoding(sampling=Sampling(temperature=1, top_k=5)),
    Capability.MIN_P: Decoding(sampling=Sampling(temperature=1), token_by_token=TokenByToken(min_p=0.5)),
    Capability.MIN_TOKENS: Decoding(token_by_token=TokenByToken(min_tokens=2)),
    Capability.FREQUENCY_PENALTY: Decoding(token_by_token=TokenByToken(frequency_penalty=1)),
    Capability.PRESENCE_PENALTY: Decoding(token_by_token=TokenByToken(presence_penalty=1)),
    Capability.REPETITION_PENALTY: Decoding(token_by_token=TokenByToken(repetition_penalty=1.5)),
    Capability.STRICT: Decoding(token_by_token=TokenByToken(grammar=_TAG)),
}
"""What SGLang honours wherever it takes it."""


async def _draws_by_seed(client: EngineClient) -> bool:
    async def drawn(seed: int) -> list[int]:
        sampling = Sampling(temperature=_HOTTEST, seed=seed)
        return (await _ask(client, Decoding(ignore_eos=True, sampling=sampling))).token_ids

    return await drawn(1) == await drawn(1) != await drawn(2)


async def _ask(client: EngineClient, decoding: Decoding) -> Progress:
    """Raises EngineFault, EngineRefusal."""
    generation = await client.generate(_PROMPT, _TOKENS, decoding)
    try:
        answer = await generation.next()
        while answer.finish is None:
            answer = answer.followed_by(await generation.next())
        return answer
    finally:
        await generation.stop()
