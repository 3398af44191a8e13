"""From a job's prompt to the token ids that its engine is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import msgspec
from pydantic_core import from_json
from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from dllm_stack.messages import ChatPrompt, Decoding, Prompt, TextPrompt, TokenPrompt
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from worker.engine.checkpoint import download_small_files
from worker.token_bytes import TokenBytes
from worker.tool_format import tool_format

# Longer prompts are rendered in a thread: this many characters take about a millisecond, and a message
# takes as long as so many more.
_INLINE_CHARACTERS = 4096
_CHARACTERS_A_MESSAGE = 16
_NAMES = {ChatPrompt: "messages", TextPrompt: "prompt", TokenPrompt: "input_ids"}


class TokenizerError(Exception):
    """The checkpoint's tokenizer cannot be used."""


class Limits(msgspec.Struct, frozen=True):
    """In tokens, as the running engine has them."""

    prompt: int
    context: int  # prompt and answer together


class Renderer:
    """The checkpoint's chat template and tokenizer.

    It takes both without the model library's tokenizer classes, which would bring torch, and half a
    gigabyte, into the worker's process.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        chat_template: str | None,
        special_tokens: Mapping[str, str],
        vocab_size: int,
    ) -> None:
        self._tokenizer = tokenizer
        self.chat_template = chat_template
        self.token_bytes = TokenBytes(tokenizer)
        self._special_tokens = special_tokens
        self._vocab_size = vocab_size
        # A normalizer may shorten a text, so that its length says nothing of its tokens.
        bounded = tokenizer.normalizer is None
        self._longest_token = max(map(len, tokenizer.get_vocab())) if bounded else None
        # One at a time: a text of megabytes takes a hundred times its size while it is tokenized.
        self._thread = ThreadPoolExecutor(1, "tokenizer")

    @classmethod
    def load(cls, location: str, revision: str | None, vocab_size: int) -> Self:
        """Reads a checkpoint's tokenizer.

        Args:
            location: a folder or a hub id.
            revision: of the hub id.
            vocab_size: the model's; an id at or above it would crash the engine.

        Raises:
            TokenizerError: there is no usable tokenizer.json, or its configuration cannot be read.
        """
        try:
            folder = Path(location)
            if not folder.is_dir():
                folder = download_small_files(location, revision)
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            config_file = folder / "tokenizer_config.json"
            config = json.loads(config_file.read_text("utf-8")) if config_file.is_file() else {}
            template = _chat_template(folder, config)
        except Exception as error:  # tokenizers raises nothing narrower
            raise TokenizerError(f"{location}: its tokenizer cannot be used: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, template, _special_tokens(config), vocab_size)

    def check_length(self, prompt: Prompt, limits: Limits) -> None:
        """Refuses, without tokenizing it, a text that no tokens are long enough for.

        Raises:
            RequestError
        """
        self._check_characters(_text_length(prompt), prompt, limits)

    def _check_characters(self, count: int, prompt: Prompt, limits: Limits) -> None:
        if self._longest_token is None or count <= limits.prompt * self._longest_token:
            return
        name = _NAMES[type(prompt)]
        message = f"This model's maximum context length is {limits.context} tokens, and your {name} resulted "
        message += f"in more than {limits.prompt}. Please shorten the {name}."
        raise _refusal(ErrorCode.CONTEXT_LENGTH_EXCEEDED, message, prompt)

    async def render(self, prompt: Prompt, limits: Limits | None = None) -> list[int]:
        """The prompt's token ids; at least one.

        Args:
            limits: as of `check_length`, for the text that a chat becomes with its tools and calls.

        Raises:
            RequestError: it cannot be rendered, is too long, or has no token or one that the model lacks.
        """
        ids = await self.tokenize(prompt, limits=limits)
        if not ids:
            raise _refusal(ErrorCode.INVALID_VALUE, "The prompt is empty.", prompt)
        return ids

    async def tokenize(
        self, prompt: Prompt, *, special: bool = False, limits: Limits | None = None
    ) -> list[int]:
        """The prompt's token ids.

        Args:
            special: with those that the tokenizer adds to a text.
            limits: as of `render`.

        Raises:
            RequestError: the prompt cannot be rendered, is too long, or has a token that the model lacks.
        """
        work = partial(self._ids, prompt, special, limits)
        if characters(prompt) <= _INLINE_CHARACTERS:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def detokenize(self, token_ids: list[int], *, special: bool) -> str:
        """As `decode`.

        Raises:
            RequestError: the model lacks one of the tokens.
        """
        self._check_ids(token_ids, "tokens")
        decode = partial(self.decode, token_ids, special=special)
        if len(token_ids) <= _INLINE_CHARACTERS:
            return decode()
        return await asyncio.get_running_loop().run_in_executor(self._thread, decode)

    def decode(self, token_ids: list[int], *, special: bool) -> str:
        """The text of token ids, with or without special tokens."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=not special)
        return text

    @cached_property
    def tool_format(self) -> str | None:
        """See `ModelCard.tools`."""

        def keeps(text: str) -> bool:
            return self.decode(self._encode(text, special=False), special=False) == text

        return tool_format(self._render_chat, keeps)

    def _ids(self, prompt: Prompt, special: bool, limits: Limits | None) -> list[int]:
        match prompt:
            case ChatPrompt():
                text = self._render_chat(prompt)
                if limits is not None:
                    self._check_characters(len(text), prompt, limits)
                return self._encode(text, special=False)
            case TextPrompt(text):
                return self._encode(text, special)
            case TokenPrompt(ids):
                self._check_ids(ids, _NAMES[TokenPrompt])
                return ids

    def _check_ids(self, token_ids: list[int], param: str) -> None:
        outside = [each for each in token_ids if not 0 <= each < self._vocab_size]
        if outside:
            message = f"{outside[0]} is no token id of this model, which has {self._vocab_size} of them."
            raise RequestError(Problem(ErrorCode.INVALID_VALUE, message, param=param))

    def _render_chat(self, prompt: ChatPrompt) -> str:
        template = self.chat_template
        if template is None:
            raise _refusal(ErrorCode.INVALID_VALUE, "This model has no chat template.", prompt)
        try:
            messages = [_message(each, knows_developer="developer" in template) for each in prompt.messages]
            rendered, _ = render_jinja_template(
                [messages],
                tools=prompt.tools,
                chat_template=template,
                add_generation_prompt=True,
                **self._special_tokens,
            )
        except Exception as error:  # a template may fail in any way on messages it was not made for
            message = f"This model's chat template cannot render these messages: {error}"
            raise _refusal(ErrorCode.INVALID_VALUE, message, prompt) from error
        text: str = rendered[0]
        return text

    def _encode(self, text: str, special: bool) -> list[int]:
        # The one-text call keeps Python's lock for as long as it takes; the batch call lets go of it.
        encoding = self._tokenizer.encode_batch_fast([text], add_special_tokens=special)[0]
        ids: list[int] = encoding.ids
        return ids


def characters(prompt: Prompt) -> int:
    """About as long as this many characters a prompt takes to render."""
    if not isinstance(prompt, ChatPrompt):
        return _text_length(prompt)
    calls = [call["function"] for message in prompt.messages for call in message.get("tool_calls") or ()]
    written = sum(len(call.get("arguments") or "") for call in calls)
    tools = len(msgspec.json.encode(prompt.tools)) if prompt.tools else 0
    parts = len(prompt.messages) + len(calls)
    return _text_length(prompt) + written + tools + _CHARACTERS_A_MESSAGE * parts


def _text_length(prompt: Prompt) -> int:
    match prompt:
        case ChatPrompt(messages):
            return sum(len(message.get("content") or "") for message in messages)
        case TextPrompt(text):
            return len(text)
        case TokenPrompt():
            return 0


def answer_room(prompt: Prompt, prompt_tokens: int, decoding: Decoding, limits: Limits) -> int:
    """How many tokens the answer may have.

    Raises:
        RequestError: the prompt, or the prompt with `max_tokens`, is longer than the context.
    """
    name, wanted = _NAMES[type(prompt)], decoding.max_tokens
    room = limits.context - prompt_tokens
    message = f"This model's maximum context length is {limits.context} tokens"
    if prompt_tokens > limits.prompt:
        message += f", and a prompt may have {limits.prompt} of them. However, your {name} resulted in "
        message += f"{prompt_tokens} tokens. Please shorten the {name}."
    elif wanted is not None and wanted > room:
        message += (
            f". However, you requested {prompt_tokens + wanted} tokens ({prompt_tokens} in the {name}, "
        )
        message += f"{wanted} in the completion). Please reduce either."
    else:
        return room if wanted is None else wanted
    raise _refusal(ErrorCode.CONTEXT_LENGTH_EXCEEDED, message, prompt)


def whole_blocks(
    prompt_tokens: int, committed: int, room: int, limits: Limits, block_size: int, *, first: int = 0
) -> int:
    """How many of the committed tokens the engine may be given beside the prompt.

    A block-diffusion engine goes on with the same answer only where a block ends; it takes no longer prompt
    than `limits.prompt`, and generates at least one token. What is committed beyond is generated again.

    Args:
        room: see `answer_room`.
        block_size: tokens.
        first: tokens of the prompt before the first block: none, or all of them.
    """
    most = prompt_tokens + min(committed, room - 1, limits.prompt - prompt_tokens)
    return max(0, first + (most - first) // block_size * block_size - prompt_tokens)


def _refusal(code: ErrorCode, message: str, prompt: Prompt) -> RequestError:
    return RequestError(Problem(code, message, param=_NAMES[type(prompt)]))


def _message(message: dict[str, Any], *, knows_developer: bool) -> dict[str, Any]:
    """A message as chat templates expect it: some content, a known role, arguments as an object."""
    message = {**message, "content": message.get("content") or ""}
    if message["role"] == "developer" and not knows_developer:
        message["role"] = "system"
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [_tool_call(call) for call in calls]
    return message


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        # Python's own reader takes halves of characters, which cannot be tokenized.
        function = {**function, "arguments": from_json(arguments or "{}", allow_inf_nan=False)}
    return {**call, "function": function}


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """From where transformers takes it: a file of its own first, then the tokenizer's configuration."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    template: str | Sequence[Mapping[str, str]] | None = config.get("chat_template")
    if template is None or isinstance(template, str):
        return template
    return next((each["template"] for each in template if each["name"] == "default"), None)


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Names that templates may use, such as bos_token."""
    named = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {name: each["content"] if isinstance(each, dict) else each for name, each in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}
