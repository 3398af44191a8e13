"""Workloads that measure time: one client or many, each with the next request once it has its answer."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from loadtest.versus.chat import Chat, text
from loadtest.versus.connection import Answer, Connection, lost
from loadtest.versus.quantile import milliseconds
from loadtest.versus.stands import Stand

BLOCKS = 4  # of an answer, 32 tokens each
WARM_UP_S = 2.0
_CHATS = 16
_PAUSE_S = 0.05  # of a client that gets no connection


@dataclass(frozen=True)
class Workload:
    name: str
    stream: bool
    clients: int
    quick_ack: bool
    seconds: float  # of a round


@dataclass(frozen=True)
class Pace:
    """Of the simulator, and what is measured at it.

    Attributes:
        arguments: of the simulator.
    """

    told: str
    arguments: list[str]
    workloads: list[Workload]


_MANY = 64
PACED_STREAM = "stream c=64, paced"
PACES = [
    Pace(
        "5 ms a block, so that what limits is the gateway",
        ["--slots", "128", "--block-ms", "5", "--prefill-ms", "1"],
        [
            Workload("JSON c=1", stream=False, clients=1, quick_ack=False, seconds=1.0),
            Workload("stream c=1", stream=True, clients=1, quick_ack=False, seconds=1.0),
            Workload("stream c=1, quick ACK", stream=True, clients=1, quick_ack=True, seconds=1.0),
            Workload("JSON c=64", stream=False, clients=_MANY, quick_ack=False, seconds=1.5),
            Workload("stream c=64", stream=True, clients=_MANY, quick_ack=False, seconds=1.5),
            Workload("stream c=64, quick ACK", stream=True, clients=_MANY, quick_ack=True, seconds=1.5),
        ],
    ),
    Pace(
        "the pace of an H200, by the simulator's table",
        ["--slots", "128", "--table", "h200"],
        [Workload(PACED_STREAM, stream=True, clients=_MANY, quick_ack=False, seconds=2.5)],
    ),
]


@dataclass
class Measured:
    """Of one gateway and workload, all rounds."""

    ttft_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)  # right answers a second, of each round
    wrong: int = 0  # answers, lost ones too
    answers: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def cpu_ms(self, process: str | None = None) -> float:
        """Of a request; of all processes, without one."""
        seconds = sum(self.cpu_s.values()) if process is None else self.cpu_s[process]
        return 1000 * seconds / self.answers

    def ms(self, times: str, percent: int) -> float:
        """Args: times: ttft_s or total_s."""
        return milliseconds(getattr(self, times), percent)


class Speed:
    """Every gateway with every workload.

    Attributes:
        measured: by gateway and workload.
    """

    def __init__(self, chats: list[Chat], workloads: list[Workload]) -> None:
        self._chats = chats
        self._workloads = workloads
        self._right = {chat: chat.answer(BLOCKS) for chat in chats}
        self.measured: dict[tuple[str, str], Measured] = {}

    @classmethod
    async def prepared(cls, workloads: list[Workload]) -> Speed:
        return cls([await Chat.numbered(number) for number in range(_CHATS)], workloads)

    async def rounds(
        self, stands: list[Stand], count: int, warm_up_s: float, told: Callable[[int], None]
    ) -> None:
        """After a warm-up. Gateways take turns within a workload, each time in another order."""
        dice, most = random.Random(0), max(self._workloads, key=lambda workload: workload.clients)
        for stand in stands:
            await self._load(stand, most, warm_up_s)
        for number in range(count):
            for workload in self._workloads:
                for stand in dice.sample(stands, len(stands)):
                    await self._measure(stand, workload)
            told(number + 1)

    async def _measure(self, stand: Stand, workload: Workload) -> None:
        measured = self.measured.setdefault((stand.name, workload.name), Measured())
        before, began = stand.cpu_s(), time.monotonic()
        asked = await self._load(stand, workload, workload.seconds)
        for name, cpu_s in stand.cpu_s().items():
            measured.cpu_s[name] = measured.cpu_s.get(name, 0.0) + cpu_s - before[name]
        right = [a for chat, a in asked if text(a, stream=workload.stream) == self._right[chat]]
        measured.answers += len(asked)
        measured.wrong += len(asked) - len(right)
        measured.rates.append(len(right) / (max(answer.ended for _, answer in asked) - began))
        measured.ttft_s += [answer.ttft_s for answer in right]
        measured.total_s += [answer.total_s for answer in right]

    async def _load(self, stand: Stand, workload: Workload, seconds: float) -> list[tuple[Chat, Answer]]:
        """Each client asks at least once."""
        requests = itertools.cycle(
            (chat, chat.request(BLOCKS, stream=workload.stream)) for chat in self._chats
        )
        connections = [await _connect(stand, workload) for _ in range(workload.clients)]
        until, asked = time.monotonic() + seconds, []

        async def client(connection: Connection | None) -> None:
            while True:
                chat, request = next(requests)
                asked.append((chat, await connection.ask(request) if connection else lost()))
                if time.monotonic() >= until:
                    break
                if connection is None or not connection.usable:
                    connection = await _connect(stand, workload)
            if connection is not None:
                connection.leave()

        await asyncio.gather(*map(client, connections))
        return asked


async def _connect(stand: Stand, workload: Workload) -> Connection | None:
    try:
        return await Connection.open(stand.url, workload.quick_ack)
    except OSError:
        await asyncio.sleep(_PAUSE_S)
        return None
