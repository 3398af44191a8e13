"""Structured logs of a service. Nothing of a prompt or an answer is ever logged."""

from __future__ import annotations

import logging
import sys

import structlog

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
        structlog.processors.format_exc_info,
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
