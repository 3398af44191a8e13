"""What a person sees and does on the page."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from dllm_stack.decoding import Sampling
from dllm_stack.messages import ChatPrompt, Work
from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until
from tests.playground.acts import NONE, ask, figure, last_turn, settled
from tests.playground.conftest import MODES, PHONE, WIDE, Open

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>&lt;b&gt;"


async def test_blocks_appear_as_they_are_committed(page: Page, worker: FakeWorker) -> None:
    run = await ask(page, worker)
    turn = last_turn(page)
    await expect(turn.get_by_role("heading")).to_have_text("Greet the world")
    await expect(turn.get_by_text("waiting")).to_be_visible()
    await expect(figure(turn, "TTFT")).to_have_text(re.compile(r"^[\d.]+ m?s$"))  # so far
    await expect(figure(turn, "tokens/s")).to_have_text(NONE)

    await run.commit("Hello ", tokens=20, work=Work(forwards=4))
    blocks = turn.locator(".text .block")
    await expect(blocks).to_have_text(["Hello "])
    await run.commit("big world", tokens=32, work=Work(forwards=2))
    await expect(blocks).to_have_text(["Hello ", "big world"])
    await expect(figure(turn, "tokens")).to_have_text("52")
    await expect(figure(turn, "tokens/forward")).to_have_text(NONE)  # told in the end
    lines = [
        await block.evaluate("it => getComputedStyle(it).textDecorationColor") for block in await blocks.all()
    ]
    assert lines[0] != lines[1]

    await run.finish()
    await settled(page)
    await expect(figure(turn, "tokens/forward")).to_have_text("8.67")
    await expect(figure(turn, "blocks")).to_have_text("2")
    await expect(figure(turn, "tokens/s")).to_have_text(re.compile(r"^[\d.]+$"))
    await expect(figure(turn, "TTFT")).to_have_text(re.compile(r"^[\d.]+ m?s$"))
    await expect(page.get_by_role("status")).to_have_text(
        re.compile(r"^Hello big world \(52 tokens in 2 blocks, ")
    )


async def test_a_block_says_what_it_took(page: Page, worker: FakeWorker) -> None:
    run = await ask(page, worker)
    await run.commit("One ", tokens=20, work=Work(forwards=4))
    await run.commit("", tokens=32, work=Work(forwards=3))  # its text is held back
    await run.commit("two ", tokens=32, work=Work(forwards=2))
    await run.commit("three", tokens=1, work=Work(forwards=1))
    await run.finish()
    await settled(page)
    turn, tip = last_turn(page), page.get_by_role("tooltip")
    await turn.locator(".text .block").first.hover()
    await expect(tip).to_have_text(
        re.compile(r"^block 1, 20 tokens, 4 forwards, [\d.]+ m?s after the request$")
    )
    await turn.locator(".text .block").nth(2).hover()
    await expect(tip).to_have_text(
        re.compile(r"^block 3, 32 tokens, 2 forwards, [\d.]+ m?s after the one before$")
    )
    await expect(turn.locator(".lit")).to_have_count(2)  # in the text and on the strip
    await page.get_by_label("Message").hover()
    await expect(tip).to_be_hidden()

    strip = turn.get_by_role("group", name="Blocks over time")
    await strip.get_by_role("button").first.focus()
    for key, told in (
        ("ArrowRight", "block 2, 32 tokens, 3 forwards,"),
        ("End", "block 4, 1 token, 1 forward,"),
        ("Home", "block 1,"),
    ):
        await page.keyboard.press(key)
        await expect(tip).to_contain_text(told)
        await expect(strip.locator(":focus")).to_have_attribute("aria-label", re.compile(told))


async def test_a_chat_of_several_turns(page: Page, worker: FakeWorker) -> None:
    await page.get_by_text("Parameters").click()
    await page.get_by_label("System prompt").fill("Be brief.")
    run = await ask(page, worker, "One")
    await run.commit("1")
    await run.finish()
    await settled(page)
    run = await ask(page, worker, "Two\nlines")
    said = [("system", "Be brief."), ("user", "One"), ("assistant", "1"), ("user", "Two\nlines")]
    assert run.job.prompt == ChatPrompt([{"role": role, "content": content} for role, content in said])
    await run.commit("2")
    await run.finish()
    await settled(page)

    # Asked again, the answer before is seen and not told.
    await last_turn(page).get_by_role("button", name="Ask again").click()
    again = await worker.claimed()
    assert again.job.prompt == run.job.prompt
    await again.commit("two")
    await again.finish()
    await settled(page)
    await expect(page.get_by_role("article").locator(".text")).to_have_text(["1", "2", "two"])
    await expect(page.locator(".set-aside .text")).to_have_text(["2"])
    run = await ask(page, worker, "Three")
    assert isinstance(run.job.prompt, ChatPrompt)
    assert [message["content"] for message in run.job.prompt.messages][-2:] == ["two", "Three"]
    await run.finish()

    await page.get_by_role("button", name="New chat").click()
    await expect(page.get_by_role("article")).to_have_count(0)
    run = await ask(page, worker, "Four")
    assert run.job.prompt == ChatPrompt(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Four"}]
    )


async def test_without_a_model_nothing_is_asked_and_nothing_forgotten(page: Page, worker: FakeWorker) -> None:
    run = await ask(page, worker, "One")
    await run.commit("1")
    await run.finish()
    await settled(page)
    await page.route("**/v1/models", lambda route: route.fulfill(json={"object": "list", "data": []}))
    await page.get_by_label("Model").focus()
    await expect(page.get_by_text("No worker has announced a model yet.")).to_be_visible()
    await last_turn(page).get_by_role("button", name="Ask again").click()
    await page.unroute("**/v1/models")
    run = await ask(page, worker, "Two")
    assert isinstance(run.job.prompt, ChatPrompt)
    assert [message["content"] for message in run.job.prompt.messages] == ["One", "1", "Two"]
    await run.finish()


async def test_an_example_is_asked_by_a_click(page: Page, worker: FakeWorker) -> None:
    await page.get_by_role("button", name="Write the number from 1 to 128").click()
    run = await worker.claimed()
    assert run.job.prompt == ChatPrompt([{"role": "user", "content": "Write the number from 1 to 128"}])
    await expect(page.get_by_label("Examples")).to_be_hidden()
    await expect(page.get_by_label("Message")).to_be_focused()


async def test_modes_and_parameters_reach_the_worker(page: Page, worker: FakeWorker) -> None:
    await expect(page.get_by_role("radio", name="quality")).to_be_checked()
    run = await ask(page, worker)
    decoding = run.job.decoding
    assert (decoding.mode, decoding.decision, decoding.max_tokens) == ("quality", None, None)
    await run.finish()
    await settled(page)

    await page.get_by_role("radio", name="speed").check()
    await page.get_by_text("Parameters").click()
    await expect(page.get_by_label("temperature")).to_be_disabled()  # JointThreshold draws nothing
    await expect(page.get_by_label("edit_threshold")).to_have_attribute("placeholder", "0.25")
    await page.get_by_label("threshold", exact=True).fill("0.75")
    await page.get_by_label("max_tokens").fill("40")
    run = await ask(page, worker)
    decision = run.job.decoding.decision
    assert decision is not None
    assert decision.algorithm == "JointThreshold"
    assert decision.parameters == {**MODES["speed"].parameters, "threshold": 0.75}
    assert run.job.decoding.max_tokens == 40
    await run.finish()
    await settled(page)
    await expect(last_turn(page)).to_contain_text("tiny · speed")

    await page.get_by_label("Decoding").select_option("LowConfidence")
    await page.get_by_label("temperature").fill("0.5")
    await page.get_by_label("seed").fill("7")
    await page.get_by_label("top_p").fill("0.9")
    await expect(page.locator("#changed")).to_have_text(
        "LowConfidence, max_tokens 40, temperature 0.5, top_p 0.9, seed 7, threshold 0.75"
    )
    run = await ask(page, worker)
    decision, sampling = run.job.decoding.decision, run.job.decoding.sampling
    assert decision is not None
    assert sampling is not None
    assert (decision.algorithm, decision.parameters["threshold"]) == ("LowConfidence", 0.75)
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.5, 0.9, 7)
    await run.finish()
    await settled(page)

    await page.get_by_role("button", name="Reset").click()
    await expect(page.locator("#changed")).to_be_empty()
    run = await ask(page, worker)
    assert (run.job.decoding.mode, run.job.decoding.sampling) == ("speed", None)


async def test_a_model_that_writes_token_by_token(
    page: Page, worker: FakeWorker, served: Served, connections: Connections, settings: Settings
) -> None:
    able = ["seed", "temperature", "top_p"]
    async with FakeWorker(
        connections, settings.queue, "other", name="other", autoregressive=able
    ).working() as ar:
        await until(lambda: lists(served, "other"))
        await page.reload()
        await page.get_by_label("Model", exact=True).select_option("tiny")
        await expect(page.get_by_role("radio")).to_have_count(2)
        await page.get_by_label("Model", exact=True).select_option("other")
        await expect(page.get_by_role("radio")).to_have_count(0)
        await page.get_by_text("Parameters").click()
        await expect(page.get_by_label("Decoding")).to_be_hidden()
        await expect(page.get_by_label("temperature")).to_have_attribute("placeholder", "1")
        await expect(page.get_by_label("top_k")).to_be_disabled()
        await page.get_by_label("seed").fill("7")
        run = await ask(page, ar)
        assert run.job.decoding.sampling == Sampling(temperature=1, seed=7)
        for token in ("One ", "by ", "one"):
            await run.commit(token)
        await run.finish()
        await settled(page)
        await expect(last_turn(page).locator(".text .block")).to_have_text(["One ", "by ", "one"])
        await expect(figure(last_turn(page), "tokens/forward")).to_be_hidden()
        await page.get_by_label("temperature").fill("0")
        await expect(page.get_by_label("seed")).to_be_disabled()


async def lists(served: Served, model: str) -> bool:
    return model in [each["id"] for each in (await served.http.get("/v1/models")).json()["data"]]


async def test_a_number_that_is_none_is_not_sent(page: Page, worker: FakeWorker) -> None:
    await page.get_by_text("Parameters").click()
    await page.get_by_label("max_tokens").fill("1.5")
    await page.get_by_text("Parameters").click()
    await page.get_by_label("Message").fill("Greet the world")
    await page.get_by_label("Message").press("Enter")
    await expect(page.get_by_label("max_tokens")).to_be_focused()
    await expect(page.get_by_role("article")).to_have_count(0)
    await expect(page.get_by_label("Message")).to_have_value("Greet the world")


async def test_what_a_model_writes_is_text(page: Page, worker: FakeWorker) -> None:
    run = await ask(page, worker, HOSTILE)
    half = len(HOSTILE) // 2
    await run.commit(HOSTILE[:half], tokens=32)
    await run.commit(HOSTILE[half:], tokens=32)
    turn = last_turn(page)
    await expect(turn.locator(".text")).to_have_text(HOSTILE)
    await turn.get_by_text("Events").click()
    await run.fail(Problem(ErrorCode.ENGINE_ERROR, HOSTILE))
    await expect(turn.get_by_role("alert")).to_contain_text(HOSTILE)
    await expect(turn.get_by_role("heading")).to_have_text(HOSTILE)
    assert await page.locator("main :is(img, script, b)").count() == 0
    assert await page.title() == "dllm-stack playground"


async def test_no_script_but_the_pages_own_runs(open_page: Open, worker: FakeWorker) -> None:
    refused: list[str] = []
    async with open_page(complaints=refused) as page:
        for attempt in (
            """const own = document.createElement("script"); own.append("document.title = 'owned'");
            document.body.append(own)""",
            """document.body.innerHTML = "<img src=x onerror=\\"document.title = 'owned'\\">" """,
            """document.body.setAttribute("onclick", "document.title = 'owned'")""",
            """setTimeout("document.title = 'owned'")""",
        ):
            await page.evaluate(f"() => {{ try {{ {attempt} }} catch {{}} }}")
        await page.get_by_role("heading", name="dllm-stack").click()
        outside = await page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
        assert outside == "refused"
        assert await page.title() == "dllm-stack playground"
    assert (
        len([each for each in refused if re.search("Content Security Policy|requires 'Trusted", each)]) >= 5
    )


@pytest.mark.parametrize("by", ["button", "escape"])
async def test_stop_aborts_the_request(page: Page, worker: FakeWorker, served: Served, by: str) -> None:
    run = await ask(page, worker)
    await run.commit("Half of", tokens=32)
    turn = last_turn(page)
    await expect(turn.locator(".text")).to_have_text("Half of")
    if by == "button":
        await page.get_by_role("button", name="Stop").click()
    else:
        await page.keyboard.press("Escape")
    await asyncio.wait_for(run.cancelled.wait(), 120)
    await expect(turn.get_by_text("Stopped.")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await expect(page.get_by_label("Message")).to_be_focused()
    assert await until(lambda: served.outcomes()) == {("chat", "tiny", "cancelled", ""): 1}
    run = await ask(page, worker, "Go on")
    assert isinstance(run.job.prompt, ChatPrompt)
    assert run.job.prompt.messages[1] == {"role": "assistant", "content": "Half of"}


async def test_an_error_is_the_apis(page: Page, worker: FakeWorker) -> None:
    await page.get_by_text("Parameters").click()
    await page.get_by_label("max_tokens").fill("5000")
    await page.get_by_label("Message").fill("Greet the world")
    await page.get_by_role("button", name="Send").click()
    trouble = last_turn(page).get_by_role("alert")
    await expect(trouble).to_contain_text("4096")
    await expect(trouble).to_contain_text("context_length_exceeded, param max_tokens, request ")
    await page.get_by_label("max_tokens").fill("")
    await last_turn(page).get_by_role("button", name="Ask again").click()
    run = await worker.claimed()
    assert run.job.prompt == ChatPrompt([{"role": "user", "content": "Greet the world"}])

    # After its first block.
    await run.commit("Hello", tokens=32)
    turn = last_turn(page)
    await expect(turn.locator(".text")).to_have_text("Hello")
    await run.fail(Problem(ErrorCode.ENGINE_ERROR, "The engine aborted this request."))
    await expect(turn.get_by_role("alert")).to_contain_text("The engine aborted this request.")
    await settled(page)


async def test_a_gateway_that_is_gone(page: Page, worker: FakeWorker) -> None:
    await page.context.set_offline(True)
    await page.get_by_label("Message").fill("Greet the world")
    await page.get_by_role("button", name="Send").click()
    await expect(last_turn(page).get_by_role("alert")).to_have_text("The gateway cannot be reached.")


async def test_a_connection_that_breaks(page: Page, worker: FakeWorker, served: Served) -> None:
    run = await ask(page, worker)
    await run.commit("Half of", tokens=32)
    await expect(last_turn(page).locator(".text")).to_have_text("Half of")
    for connection in list(served.server.server_state.connections):
        connection.transport.abort()
    await expect(last_turn(page).get_by_role("alert")).to_contain_text("The answer broke off")
    await expect(last_turn(page).locator(".text")).to_have_text("Half of")
    await settled(page)


async def test_the_events_as_they_came(page: Page, worker: FakeWorker) -> None:
    run = await ask(page, worker)
    await run.commit("Hello", tokens=32)
    turn = last_turn(page)
    await expect(turn.locator(".text")).to_have_text("Hello")
    await turn.get_by_text("Events").click()
    await run.finish()
    await settled(page)
    lines = turn.get_by_role("listitem").locator("code")
    await expect(lines.last).to_have_text("[DONE]")
    sent, answered, first, *_, _done = await lines.all_inner_texts()
    request = json.loads(sent)
    assert request["messages"] == [{"role": "user", "content": "Greet the world"}]
    assert request["dllm"] == {"mode": "quality", "stats": True}
    assert re.fullmatch(r"HTTP 200, x-request-id [0-9a-f]{32}", answered)
    assert json.loads(first)["choices"][0]["delta"]["content"] == "Hello"


async def test_the_request_for_a_shell(open_page: Open, served: Served, worker: FakeWorker) -> None:
    async with open_page(permissions=["clipboard-read", "clipboard-write"]) as page:
        run = await ask(page, worker, "Don't")
        await run.commit("No")
        await run.finish()
        await last_turn(page).get_by_role("button", name="Copy as curl").click()
        command = await page.evaluate("navigator.clipboard.readText()")
        shell = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
        again = await worker.claimed()
        assert again.job.prompt == run.job.prompt
        await again.commit("No")
        await again.finish()
        output, _ = await shell.communicate()
        assert output.endswith(b"data: [DONE]\n\n")


async def test_models_are_waited_for(open_page: Open, worker: FakeWorker, served: Served) -> None:
    """One that is announced, and not loaded, has no modes yet."""
    await worker.announce("loading <b>")
    await until(lambda: lists(served, "loading <b>"))
    async with open_page() as page:
        await expect(page.get_by_label("Model", exact=True).locator("option")).to_have_text(
            ["loading <b>", "tiny"]
        )
        await expect(page.get_by_label("Mode", exact=True)).to_be_hidden()
        await page.get_by_label("Model", exact=True).select_option("tiny")
        await expect(page.get_by_role("radio", name="quality")).to_be_checked()


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
async def test_it_fits_the_screen_and_all_can_use_it(
    open_page: Open, worker: FakeWorker, width: tuple[int, int], scheme: str
) -> None:
    async with open_page(width, scheme) as page:
        run = await ask(page, worker, "x" * 200)
        for _ in range(30):
            await run.commit("word " * 20 + "y" * 100, tokens=32)
        turn = last_turn(page)
        await expect(turn.locator(".block")).to_have_count(30)
        await expect(page.get_by_role("button", name="Stop")).to_be_in_viewport()
        await run.finish()
        await settled(page)
        assert await page.evaluate("document.documentElement.scrollWidth") == width[0]

        await turn.get_by_role("button", name="Ask again").click()
        run = await worker.claimed()
        await run.commit("word " * 20, tokens=32)
        await run.fail(Problem(ErrorCode.ENGINE_ERROR, "The engine aborted this request."))
        await settled(page)
        await last_turn(page).get_by_text("Events").click()
        await page.get_by_text("Parameters").click()
        await page.get_by_text("API key").click()
        block = last_turn(page).locator(".text .block")
        await (block.tap() if width == PHONE else block.hover())
        await expect(page.get_by_role("tooltip")).to_be_visible()
        await expect(page.get_by_role("button", name="Send")).to_be_in_viewport()
        await expect(page.get_by_label("Message")).to_be_in_viewport()
        assert await page.evaluate("document.documentElement.scrollWidth") == width[0]
        colours = await page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
        ink, paper = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
        assert (ink < paper) == (scheme == "light")
        # Names, roles, contrasts, what the keyboard reaches: as far as a program can tell.
        found = await Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
