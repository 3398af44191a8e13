"""Entries of the streams in Redis, to and from messages. Scripts write some of their fields."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from dllm_stack.messages import (
    Block,
    Cancel,
    Claim,
    Command,
    Committed,
    End,
    Information,
    Job,
    Passed,
    Place,
    Question,
    Reply,
    Tier,
    Trace,
    WorkerCard,
    encode,
)
from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.queue.figures import UNREADABLE, DeadLetter, Dispatched
from dllm_stack.queue.verdicts import verdict


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    """The body of a reply; its other fields are fields of the stream entry."""

    block: Block | None = None
    end: End | None = None
    information: Information | None = None


_decode_payload = msgspec.msgpack.Decoder(_Payload).decode
_decode_question = msgspec.msgpack.Decoder(Question).decode
_decode_job = msgspec.msgpack.Decoder(Job).decode
_decode_card = msgspec.msgpack.Decoder(WorkerCard).decode


def pack(token_ids: list[int]) -> bytes:
    return struct.pack(f"<{len(token_ids)}I", *token_ids)


def unpack(packed: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(packed) // 4}I", packed))


def payload(block: Block | None, end: End | None) -> bytes:
    return encode(_Payload(block, end))


def information(told: Information) -> bytes:
    return encode(_Payload(information=told))


def reply(pool: str, fields: dict[bytes, bytes]) -> Reply:
    if b"reason" in fields:
        body = _Payload(end=_ended(verdict(pool, fields)))
    else:
        try:
            body = _decode_payload(fields[b"body"])
        except msgspec.DecodeError:  # from a worker of another version
            unreadable = Problem(ErrorCode.INTERNAL_ERROR, "A worker sent what this gateway cannot read.")
            body = _Payload(end=_ended(unreadable))
    return Reply(
        job_id=fields[b"job"].decode(),
        worker=fields[b"worker"].decode(),
        attempt=int(fields[b"attempt"]),
        after=Place(int(fields[b"tokens"]), int(fields[b"characters"])),
        block=body.block,
        end=body.end,
        information=body.information,
        passed=_passed(fields),
    )


def _passed(fields: dict[bytes, bytes]) -> Passed | None:
    if b"running" not in fields:
        return None
    return Passed(int(fields[b"waiting"]) / 1e6, int(fields[b"running"]) / 1e6)


def command(fields: dict[bytes, bytes]) -> Command | None:
    """None: from a gateway of another version."""
    attempt = int(fields[b"attempt"])
    if fields[b"kind"] == b"cancel":
        return Cancel(fields[b"job"].decode(), attempt)
    if fields[b"kind"] == b"question":
        return _question(fields[b"body"])
    committed = Committed()
    if b"answer" in fields:
        committed = Committed(token_ids=unpack(fields[b"answer"]), characters=int(fields[b"characters"]))
    claimed = job(fields[b"body"])
    return None if claimed is None else Claim(claimed, attempt, committed)


def _question(body: bytes) -> Question | None:
    try:
        return _decode_question(body)
    except msgspec.DecodeError:
        return None


def job(body: bytes) -> Job | None:
    """None: from a gateway of another version."""
    try:
        return _decode_job(body)
    except msgspec.DecodeError:
        return None


def card(packed: bytes, *, id: str, pool: str, slots: int) -> WorkerCard:
    """What can be said of a worker of another version, if it is from one."""
    try:
        return _decode_card(packed)
    except msgspec.DecodeError:
        return WorkerCard(id=id, pool=pool, slots=slots, state=UNREADABLE)


def dispatched(row: list[Any]) -> Dispatched:
    job, tier, worker, attempt, waited_us, committed, request, trace = row
    return Dispatched(
        job.decode(),
        Tier(tier.decode()),
        worker.decode(),
        attempt,
        waited_us / 1e6,
        committed,
        request.decode() or job.decode(),
        Trace(trace.decode()) if trace else None,
    )


def dead_letter(
    entry: bytes, id: bytes, tenant: bytes, reason: bytes, attempts: int, kept: int
) -> DeadLetter:
    return DeadLetter(
        job_id=id.decode(errors="replace"),
        tenant=tenant.decode(errors="replace"),
        reason=reason.decode(errors="replace"),
        attempts=attempts,
        at=int(entry.partition(b"-")[0]) / 1000,
        kept=bool(kept),
    )


def _ended(problem: Problem) -> End:
    return End(outcome=problem.outcome, problem=problem)
