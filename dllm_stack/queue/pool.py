class Admission(Struct): accepted: bool; position: int (jobs waiting before it); problem: Problem | None

class PoolQueue:
    def __init__(self, redis: Client, blocking: Client, pool: str, settings: QueueSettings)
    # gateway
    async def admit(self, job: Job, *, attempt: int = 0) -> Admission
    async def cancel(self, job_id: str) -> None
    async def gateway_heartbeat(self, gateway: str) -> None
    async def replies(self, gateway: str, after: str, block_s: float) -> tuple[str, list[Reply]]
    async def lost(self, gateway: str, after: str, job_ids: list[str]) -> list[str]
    async def gateway_leave(self, gateway: str) -> None
    # router
    async def wait(self, timeout_s: float) -> None
    async def dispatch(self) -> int
    async def reclaim(self) -> Reclaimed
    async def depth(self) -> Depth
    # worker
    async def worker_heartbeat(self, card: WorkerCard, *, acked: str, held: list[str]) -> None
    async def commands(self, worker: str, after: str, block_s: float) -> tuple[str, list[Command]]
    async def commit(self, reply: Reply, worker) -> bool
    async def finish(...)
    async def release(job_id, attempt) -> None
    async def worker_leave(self, worker: str) -> None
