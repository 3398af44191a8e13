"""How a request ends, and the error it ends with: one list for code, metrics and HTTP."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """Every request ends in exactly one of these."""

    COMPLETED = "completed"
    REJECTED = "rejected"  # never ran: bad input, full queue, no worker
    FAILED = "failed"  # ran, or should have, and the stack could not finish it
    CANCELLED = "cancelled"  # its client went away, or an operator ended it
    EXPIRED = "expired"  # its deadline passed


class ErrorCode(StrEnum):
    """`error.code` in OpenAI's error body. `KINDS` holds the HTTP status and `error.type` of each."""

    INVALID_JSON = "invalid_json"
    INVALID_VALUE = "invalid_value"
    MISSING_FIELD = "missing_required_parameter"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    BODY_TOO_LARGE = "body_too_large"
    REQUEST_TIMEOUT = "request_timeout"
    INVALID_API_KEY = "invalid_api_key"
    PERMISSION_DENIED = "permission_denied"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    GATEWAY_FULL = "gateway_full"
    QUEUE_FULL = "queue_full"
    POOL_DRAINING = "pool_draining"
    NO_WORKER = "no_worker"
    QUEUE_UNAVAILABLE = "queue_unavailable"
    SHUTTING_DOWN = "shutting_down"
    WORKER_LOST = "worker_lost"
    ENGINE_ERROR = "engine_error"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"


class Kind(msgspec.Struct, frozen=True):
    status: int
    type: str
    outcome: Outcome


KINDS: dict[ErrorCode, Kind] = {
    ErrorCode.INVALID_JSON: Kind(400, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.INVALID_VALUE: Kind(400, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.MISSING_FIELD: Kind(400, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.UNSUPPORTED_PARAMETER: Kind(400, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: Kind(400, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.BODY_TOO_LARGE: Kind(413, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.REQUEST_TIMEOUT: Kind(408, "timeout_error", Outcome.REJECTED),
    ErrorCode.INVALID_API_KEY: Kind(401, "authentication_error", Outcome.REJECTED),
    ErrorCode.PERMISSION_DENIED: Kind(403, "permission_error", Outcome.REJECTED),
    ErrorCode.RATE_LIMIT_EXCEEDED: Kind(429, "rate_limit_error", Outcome.REJECTED),
    ErrorCode.MODEL_NOT_FOUND: Kind(404, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.NOT_FOUND: Kind(404, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.METHOD_NOT_ALLOWED: Kind(405, "invalid_request_error", Outcome.REJECTED),
    ErrorCode.GATEWAY_FULL: Kind(429, "rate_limit_error", Outcome.REJECTED),
    ErrorCode.QUEUE_FULL: Kind(429, "rate_limit_error", Outcome.REJECTED),
    ErrorCode.POOL_DRAINING: Kind(503, "service_unavailable_error", Outcome.REJECTED),
    ErrorCode.NO_WORKER: Kind(503, "service_unavailable_error", Outcome.REJECTED),
    ErrorCode.QUEUE_UNAVAILABLE: Kind(503, "service_unavailable_error", Outcome.REJECTED),
    ErrorCode.SHUTTING_DOWN: Kind(503, "service_unavailable_error", Outcome.REJECTED),
    ErrorCode.WORKER_LOST: Kind(502, "server_error", Outcome.FAILED),
    ErrorCode.ENGINE_ERROR: Kind(502, "server_error", Outcome.FAILED),
    ErrorCode.DEADLINE_EXCEEDED: Kind(504, "timeout_error", Outcome.EXPIRED),
    # No status is meant for this. 499 stands for it in gRPC's mapping too, and no SDK sends it again.
    ErrorCode.CANCELLED: Kind(499, "cancelled_error", Outcome.CANCELLED),
    ErrorCode.INTERNAL_ERROR: Kind(500, "server_error", Outcome.FAILED),
}


SOON_S = 5  # after which to try again what is expected to pass by itself


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request did not complete. Travels from worker or router to gateway, and becomes the
    body `{"error": {"message", "type", "param", "code"}}`."""

    code: ErrorCode
    message: str
    param: str | None = None
    retry_after_s: int | None = None  # becomes the Retry-After header

    @property
    def status(self) -> int:
        return KINDS[self.code].status

    @property
    def outcome(self) -> Outcome:
        return KINDS[self.code].outcome

    def body(self) -> dict[str, dict[str, str | None]]:
        return {
            "error": {
                "message": self.message,
                "type": KINDS[self.code].type,
                "param": self.param,
                "code": str(self.code),
            }
        }


def unavailable(message: str) -> Problem:
    """Redis does not do its part."""
    return Problem(ErrorCode.QUEUE_UNAVAILABLE, message, retry_after_s=SOON_S)


class RequestError(Exception):
    """Raised wherever a request must end with a `Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
