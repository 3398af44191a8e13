"""The page in headless Chromium, on a real gateway with a fake worker."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Playwright, async_playwright, expect

from dllm_stack.decoding import Decision
from dllm_stack.messages import DecodingCard
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving

WIDE, PHONE = (1280, 800), (390, 844)
MODES = {
    "quality": Decision(algorithm="LowConfidence", parameters={"threshold": 0.95}),
    "speed": Decision(algorithm="JointThreshold", parameters={"threshold": 0.5, "edit_threshold": 0.25}),
}
CARD = DecodingCard(
    default=MODES["quality"],
    modes=MODES,
    algorithms={
        "LowConfidence": ["max_steps", "threshold"],
        "JointThreshold": ["edit_threshold", "max_steps", "threshold"],
    },
    sampling=["LowConfidence"],
)

PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)

# Chromium reports them, and they may be what a test is about.
HTTP_ERROR = "Failed to load resource"

Open = Callable[..., AbstractAsyncContextManager[Page]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright, await chromium(playwright) as browser:
        yield browser


async def chromium(playwright: Playwright) -> Browser:
    binary = shutil.which("chromium", path=f"{sys.prefix}/bin")
    if binary is None:
        pytest.fail(f"there is no Chromium: run requirements/chromium.sh {sys.prefix}")
    # Root cannot have Chromium's own sandbox.
    return await playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])


@pytest.fixture
def settings(redis_settings: RedisSettings) -> Settings:
    return Settings(redis=redis_settings, queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60.0))


@pytest_asyncio.fixture(loop_scope="session")
async def connections(redis_settings: RedisSettings) -> AsyncIterator[Connections]:
    """Connections to an empty database."""
    connections = Connections(redis_settings)
    await connections.commands.flushall()
    yield connections
    await connections.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def served(connections: Connections, settings: Settings) -> AsyncIterator[Served]:
    async with serving(settings) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="session")
async def worker(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker of the model `tiny` in two modes, whose runs the test drives."""
    async with FakeWorker(connections, settings.queue, decoding=CARD).working() as worker:
        yield worker


@pytest.fixture
def open_page(browser: Browser, served: Served) -> Open:
    """Opens the page in a browser of its own. In it no script may fail and no policy be violated, unless the
    test takes these complaints."""

    @asynccontextmanager
    async def open_page(
        width: tuple[int, int] = WIDE,
        scheme: Literal["light", "dark"] = "light",
        permissions: Sequence[str] = (),
        complaints: list[str] | None = None,
    ) -> AsyncIterator[Page]:
        own = await browser.new_context(
            viewport={"width": width[0], "height": width[1]},
            color_scheme=scheme,
            permissions=permissions,
            has_touch=width == PHONE,
            reduced_motion="reduce",
        )
        own.set_default_timeout(PATIENCE_MS)
        page = await own.new_page()
        heard: list[str] = []
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("console", lambda message: heard.append(message.text))
        await page.goto(served.url)
        yield page
        await own.close()
        if complaints is not None:
            complaints += heard
        else:
            assert [each for each in heard if not re.match(HTTP_ERROR, each)] == []

    return open_page


@pytest_asyncio.fixture(loop_scope="session")
async def page(open_page: Open, worker: FakeWorker) -> AsyncIterator[Page]:
    """The page on a wide screen, with a model in it."""
    async with open_page() as page:
        await expect(page.locator("#model")).to_have_value(worker.pool)
        yield page
