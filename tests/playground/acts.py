"""What a person does on the page, and where to look."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect

from tests.gateway.fake_worker import FakeWorker, Run

NONE = "\N{EN DASH}"  # a figure that is not known


async def ask(page: Page, worker: FakeWorker, question: str = "Greet the world") -> Run:
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()  # there is a model
    await page.get_by_label("Message").fill(question)
    await page.get_by_label("Message").press("Enter")
    return await worker.claimed()


def last_turn(page: Page) -> Locator:
    return page.get_by_role("article").last


def figure(turn: Locator, name: str) -> Locator:
    return turn.locator("dl div").filter(has=turn.page.get_by_text(name, exact=True)).locator("dd")


async def settled(page: Page) -> None:
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
