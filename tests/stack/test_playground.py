"""The page on the whole stack: the seed prompt, as a person sees the answer."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.async_api import async_playwright, expect

from loadtest.count import NUMBERS
from loadtest.local_stack import LocalStack
from tests.playground.conftest import PATIENCE_MS, chromium


async def test_the_seed_prompt_in_a_browser(stack: LocalStack, record: Callable[[str], None]) -> None:
    async with async_playwright() as playwright, await chromium(playwright) as browser:
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(stack.gateway_url)
        await expect(page.get_by_role("radio", name="quality")).to_be_checked()
        await page.get_by_role("button", name="Write the number from 1 to 128").click()
        turn = page.get_by_role("article")
        await expect(turn).to_have_class(re.compile("done"), timeout=200_000)
        assert await turn.locator(".text").inner_text() == NUMBERS
        blocks = await turn.locator(".text .block").count()
        assert blocks > 4
        figures = await turn.locator("dl div").evaluate_all(
            "all => all.map(each => [each.querySelector('dt').innerText, each.querySelector('dd').innerText])"
        )
        told = dict(figures)
        assert (int(told["tokens"]), int(told["blocks"])) == (404, blocks)
        assert float(told["tokens/forward"]) > 4
        record(f"from 1 to 128 in a browser: {', '.join(f'{value} {name}' for name, value in figures)}")
