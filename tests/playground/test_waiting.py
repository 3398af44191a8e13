"""What the page says while a request waits for its turn."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.playground.acts import last_turn

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def settings(redis_settings: RedisSettings) -> Settings:
    return Settings(
        redis=redis_settings,
        queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60.0),
        gateway=GatewaySettings(keep_alive_s=0.1),
    )


async def test_where_it_is_in_the_queue(page: Page, worker: FakeWorker) -> None:
    await worker.set_slots(0)
    await page.get_by_label("Message").fill("Greet the world")
    await page.get_by_role("button", name="Send").click()
    turn = last_turn(page)
    await expect(turn.get_by_text("position 1 of 1")).to_be_visible()
    await worker.set_slots(1)
    run = await worker.claimed()
    await run.commit("Hello")
    await expect(turn.locator(".text")).to_have_text("Hello")
    await expect(turn.get_by_text("position 1 of 1")).to_be_hidden()
    await run.finish()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
