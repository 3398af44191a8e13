"""What travels through Redis, as typed messages in MessagePack.

    gateway --Job--> queue --Claim / Cancel--> worker --Reply--> gateway
    gateway --Question--> worker --Reply--> gateway

A worker also publishes a `WorkerCard` with every heartbeat.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from dllm_stack.decoding import Decision, Sampling, TokenByToken
from dllm_stack.outcomes import Outcome, Problem


class ChatPrompt(msgspec.Struct, frozen=True, tag="chat"):
    """Messages as OpenAI's roles and text; the worker renders the model's chat template."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None


class TextPrompt(msgspec.Struct, frozen=True, tag="text"):
    """Text taken as it is: no template, no special tokens added."""

    text: str


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    ids: list[int]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


class Decoding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an answer is generated. What it asks for is what the model's engine honours."""

    max_tokens: int | None = None  # None: up to the model's context
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    mode: str | None = None  # one of the model's named modes
    decision: Decision | None = None  # instead of a mode; with neither, the model's default
    sampling: Sampling | None = None  # None: as the kind of model does it, `DIFFUSION` or `AUTOREGRESSIVE`
    token_by_token: TokenByToken = TokenByToken()


DIFFUSION = Sampling()
AUTOREGRESSIVE = Sampling(temperature=1.0)  # OpenAI's default
"""How each kind of model draws its tokens unless a request says otherwise."""


class Tier(StrEnum):
    """Priority classes, the first served first; their names are OpenAI's service tiers."""

    PRIORITY = "priority"
    DEFAULT = "default"
    FLEX = "flex"  # sheddable: the first to be dropped from a full queue


class Trace(msgspec.Struct, frozen=True, array_like=True):
    """Where in a distributed trace something belongs: the W3C headers `traceparent` and `tracestate`."""

    parent: str  # well-formed: 00-TRACE-SPAN-FLAGS
    state: str = ""

    @property
    def id(self) -> str:
        return self.parent[3:35]

    @property
    def is_sampled(self) -> bool:
        return bool(int(self.parent[53:55], 16) & 1)


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One generation. Immutable: what changes (attempt, worker, committed tokens) lives in the queue."""

    id: str  # 32 hex digits
    pool: str
    gateway: str
    prompt: Prompt
    decoding: Decoding = Decoding()
    tenant: str = "default"
    weight: float | None = None  # its tenant's share of the tokens; None: as the queue's settings say
    tier: Tier = Tier.DEFAULT
    timeout_s: float | None = None  # from admission to the end; then it is expired
    session: str | None = None  # jobs of one session go to the same worker where they can
    streamed: bool = True  # if not, the client sees nothing before the end
    request: str = ""  # the id of its request; empty: its own
    trace: Trace | None = None

    @property
    def request_id(self) -> str:
        return self.request or self.id


class Committed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of an answer that has gone to the gateway. The next attempt goes on from there."""

    token_ids: list[int] = []
    characters: int = 0  # of the text sent


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """Router to worker: run this job. `attempt` is the fencing number, from 1."""

    job: Job
    attempt: int
    committed: Committed = Committed()


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """To a worker: stop this attempt of a job, and finish it as cancelled."""

    job_id: str
    attempt: int


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize"):
    prompts: list[Prompt]
    special_tokens: bool  # whether those are added that the tokenizer adds to a text; never to a chat


class Detokenize(msgspec.Struct, frozen=True, tag="detokenize"):
    token_ids: list[list[int]]
    special_tokens: bool  # whether they are part of the texts


class Question(msgspec.Struct, frozen=True, tag="question"):
    """Gateway to any worker of a pool, answered beside the jobs."""

    id: str  # 32 hex digits
    gateway: str
    asks: Tokenize | Detokenize
    request: str = ""  # the id of its request
    trace: Trace | None = None


class Information(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a question asked for, or why it is not to be had."""

    token_ids: list[list[int]] = []
    texts: list[str] = []
    context_length: int = 0  # of the model, in tokens
    problem: Problem | None = None


Command = Claim | Cancel | Question


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What committed tokens have cost, the prompt's forwards left out; 0 where the engine does not say."""

    forwards: int = 0  # of the model, with this request in the batch
    steps: int = 0  # denoise steps: forwards that committed or replaced a token
    edits: int = 0  # tokens replaced after they had been committed


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One of several blocks of the engine that were sent as one."""

    tokens: int
    work: Work


class Likely(msgspec.Struct, frozen=True, array_like=True):
    """A token that might have been drawn, and how likely it was."""

    token_id: int
    utf8: bytes  # of its text; a token may be a part of a character
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """A token of an answer, and how likely it was."""

    drawn: Likely
    top: list[Likely]  # the most likely at its place, the best first
    shown: bool = True  # whether it is part of the text


class Took(msgspec.Struct, frozen=True, array_like=True):
    """Seconds of the worker's clock before an attempt's first block."""

    prompt_s: float  # from its claim until the engine was asked: rendering and tokenizing
    engine_s: float  # from then until the engine had committed the block


class Block(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Newly committed tokens of one job: usually a block, fewer at either end of an answer, and several where
    the answer is not streamed.

    `text` may lag behind `token_ids`: an unfinished character or a possible stop string is held back.
    """

    text: str
    token_ids: list[int]
    prompt_tokens: int
    work: Work = Work()
    parts: list[Part] = []  # those that it is made of, if it is several
    logprobs: list[TokenLogprob] = []  # one a token, where the request asks for them
    took: Took | None = None  # of an attempt's first block


class End(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last reply of a job."""

    outcome: Outcome
    finish_reason: str | None = None  # "stop" or "length", when completed
    matched_stop: str | int | None = None  # the stop string or token id that ended it
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens found in the engine's prefix cache
    problem: Problem | None = None


class Place(msgspec.Struct, frozen=True):
    """How much of an answer comes before."""

    tokens: int
    characters: int


class Passed(msgspec.Struct, frozen=True):
    """Seconds of Redis' clock before the first block of an answer."""

    waiting_s: float  # from admission until it was dispatched, for the last time
    running_s: float  # from then until the block was in Redis


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a gateway's reply stream: a block, an end, or the last block with the end; or what a
    question asked for, which `job_id` then names.

    `after` says where in the answer it belongs, so that what comes twice is recognised, and what an attempt
    sends fits what an earlier one has sent.
    """

    job_id: str
    worker: str  # empty when the queue itself ended the job
    attempt: int
    after: Place
    block: Block | None = None
    end: End | None = None
    information: Information | None = None
    passed: Passed | None = None  # with the first block of an answer


class DecodingCard(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool's engines can decode."""

    default: Decision
    modes: dict[str, Decision]
    algorithms: dict[str, list[str]]  # the names of each one's parameters
    sampling: list[str]  # algorithms that honour a temperature


class ModelCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker knows of its model, from the checkpoint and the engine."""

    name: str  # also the pool
    context_length: int  # tokens, prompt and answer together
    block_size: int  # tokens committed at a time; 1 for an autoregressive model
    algorithm: str | None  # the dLLM decoding algorithm; None for an autoregressive model
    created: int  # Unix seconds, for /v1/models
    decoding: DecodingCard | None = None  # None: one fixed way, nothing to choose
    vocab_size: int | None = None  # tokens
    capabilities: list[str] | None = None  # see `Capability`; None until its engine has told
    tools: str | None = None  # the format of its tool calls; None: its chat template has none

    @property
    def is_autoregressive(self) -> bool:
        return self.algorithm is None


class WorkerCard(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    pool: str
    slots: int  # requests its engine may run at once; 0 while it loads or drains
    state: str  # loading | ready | draining
    pod: str | None = None  # the Kubernetes pod it runs in
    model: ModelCard | None = None  # None until known


encode = msgspec.msgpack.Encoder().encode
