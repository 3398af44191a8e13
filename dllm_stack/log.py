"""Structured logs of a service. Nothing of a prompt or an answer is ever logged.

Lines about a request have its id as `request`, and as `trace` the id of its trace if it has one: whoever
serves it binds them to the context of its task.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator

import structlog

from dllm_stack.messages import Job, Question, Trace
from dllm_stack.settings import Settings


def configure(settings: Settings, service: str) -> None:
    """Sets up logging for this process, its libraries included; every line carries the service's name."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    every_line: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _explain_exception,
    ]
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*every_line, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *every_line],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    libraries = logging.StreamHandler(sys.stderr)
    libraries.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[libraries], force=True)


def of_job(job: Job) -> dict[str, str]:
    """What lines about a job have."""
    return {**_of(job.request_id, job.trace), "job": job.id, "pool": job.pool}


def of_question(question: Question) -> dict[str, str]:
    """What lines about a question have."""
    return {**_of(question.request, question.trace), "question": question.id}


def _of(request_id: str, trace: Trace | None) -> dict[str, str]:
    return {"request": request_id} if trace is None else {"request": request_id, "trace": trace.id}


def _explain_exception(
    logger: object, method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Turns `exc_info` into text. What an exception says that a request has caused may quote its prompt: of
    those, only types and places are told."""
    if "request" not in line:
        return structlog.processors.format_exc_info(logger, method, line)
    if info := line.pop("exc_info", None):
        error = info[1] if isinstance(info, tuple) else info if isinstance(info, BaseException) else None
        error = error or sys.exc_info()[1]
        if error is not None:
            line["exception"] = "".join(_places(error))
    return line


def _places(error: BaseException) -> Iterator[str]:
    if (cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        yield from _places(cause)
        yield "which led to\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__qualname__}\n"
