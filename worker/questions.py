"""What a worker is asked beside its jobs: of its tokenizer and chat template."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from dllm_stack.log import of_question
from dllm_stack.messages import Detokenize, Information, Question, Tokenize
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import RedisError
from worker.prompt import Renderer

log = structlog.get_logger()

_FAILED = Problem(ErrorCode.INTERNAL_ERROR, "The worker failed on this request.")


class Questions:
    """Answers one at a time, so that a job's prompt waits for one of them at most.

    Args:
        context_length: of the model, as far as it is known, in tokens.
    """

    def __init__(
        self, worker_id: str, queue: PoolQueue, renderer: Renderer, context_length: Callable[[], int]
    ) -> None:
        self._worker_id = worker_id
        self._queue = queue
        self._renderer = renderer
        self._context_length = context_length
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, question: Question) -> None:
        task = asyncio.create_task(self._answer(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, question: Question) -> None:
        structlog.contextvars.bind_contextvars(**of_question(question))
        async with self._turn:
            try:
                told = await self._information(question)
            except RequestError as error:
                told = Information(problem=error.problem)
            except Exception:
                log.exception("question failed")
                told = Information(problem=_FAILED)
        try:
            await self._queue.tell(self._worker_id, question, told)
        except RedisError as error:  # the gateway asks again
            log.warning("a question is not answered: redis is unreachable", error=str(error))

    async def _information(self, question: Question) -> Information:
        length = self._context_length()
        match question.asks:
            case Tokenize(prompts, special):
                ids = []
                for prompt in prompts:
                    ids.append(await self._renderer.tokenize(prompt, special=special))
                    await asyncio.sleep(0)  # short ones do not leave the event loop
                return Information(token_ids=ids, context_length=length)
            case Detokenize(token_ids, special):
                texts = []
                for each in token_ids:
                    texts.append(await self._renderer.detokenize(each, special=special))
                    await asyncio.sleep(0)
                return Information(texts=texts, context_length=length)
