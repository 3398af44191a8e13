"""The page of a gateway that asks for a key."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from dllm_stack.keys import KeyStore
from dllm_stack.redis import Connections
from dllm_stack.settings import AccessSettings, QueueSettings, RedisSettings, Settings
from gateway.playground.routes import PATHS
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until
from tests.playground.acts import ask, last_turn, settled
from tests.playground.conftest import Open

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def settings(redis_settings: RedisSettings) -> Settings:
    return Settings(
        redis=redis_settings,
        queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60.0),
        access=AccessSettings(keys="redis"),
    )


async def is_told(served: Served, secret: str, status: int) -> bool:
    """What the gateway says to a key by now; it hears of a change a moment later."""
    answer = await served.http.get("/v1/models", headers={"authorization": f"Bearer {secret}"})
    return answer.status_code == status


async def give(page: Page, secret: str) -> None:
    key = page.get_by_label("Kept in this tab")
    await expect(key).to_be_focused()
    await key.fill(secret)
    await key.press("Enter")


async def test_it_is_asked_for_and_kept_in_the_tab(
    open_page: Open, worker: FakeWorker, connections: Connections, served: Served
) -> None:
    secret = (await KeyStore(connections).create("acme")).secret
    await until(lambda: is_told(served, secret, 200))
    async with open_page() as page:
        complaint = page.locator("#locked")
        await expect(complaint).to_contain_text("This needs an API key")
        await give(page, "wrong")
        await expect(complaint).to_have_text("This API key is not valid.")
        await give(page, "no key")
        await expect(complaint).to_contain_text("A key has no spaces")
        await give(page, secret)
        await expect(page.locator("#model")).to_have_value("tiny")
        await expect(complaint).to_be_hidden()
        kept = await page.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie, location.href]")
        assert kept == [{"dllm-stack.key": secret}, {}, "", page.url]
        assert secret not in page.url

        run = await ask(page, worker)
        assert run.job.tenant == "acme"
        await run.commit("Hello")
        await run.finish()
        await settled(page)
        await last_turn(page).get_by_text("Events").click()
        assert secret not in await page.content()

        await page.reload()
        await expect(page.locator("#model")).to_have_value("tiny")
        await page.get_by_text("API key").click()
        await page.get_by_role("button", name="Forget it").click()
        await expect(complaint).to_contain_text("This needs an API key")
        assert await page.evaluate("sessionStorage.length") == 0


async def test_a_question_that_was_refused_is_asked_again_with_another_key(
    open_page: Open, worker: FakeWorker, connections: Connections, served: Served
) -> None:
    keys = KeyStore(connections)
    old, new = await keys.create("acme"), await keys.create("acme")
    await until(lambda: is_told(served, new.secret, 200))
    async with open_page() as page:
        await give(page, old.secret)
        await expect(page.locator("#model")).to_have_value("tiny")
        await keys.revoke([old.key.id])
        await until(lambda: is_told(served, old.secret, 401))
        await page.get_by_label("Message").fill("Greet the world")
        await page.get_by_role("button", name="Send").click()
        await expect(last_turn(page).get_by_role("alert")).to_contain_text("invalid_api_key")
        await give(page, new.secret)
        run = await worker.claimed()
        await run.commit("Hello")
        await run.finish()
        await expect(last_turn(page).locator(".text")).to_have_text("Hello")
        await expect(page.get_by_role("article")).to_have_count(2)


async def test_all_files_of_the_page_are_open_and_nothing_else_is(served: Served) -> None:
    assert [(await served.http.get(path)).status_code for path in sorted(PATHS)] == [200] * len(PATHS)
    for path in ("/playground/", "/playground/nothing.js", "/playground//main.js", "/v1/models"):
        assert (await served.http.get(path)).status_code == 401
