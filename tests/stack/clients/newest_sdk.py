"""Run under the newest openai-python: `newest_sdk.py BASE_URL MODEL` prints what it saw as JSON."""

import json
import sys

import openai
from openai.types.chat import ChatCompletionMessageParam
from openai.types.completion_usage import CompletionUsage

base_url, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0)
messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Write the number from 1 to 128"}]

whole = client.chat.completions.create(model=model, messages=messages, max_tokens=80)
text, chunks = "", 0
usage: CompletionUsage | None = None
with client.chat.completions.create(
    model=model, messages=messages, max_tokens=80, stream=True, stream_options={"include_usage": True}
) as stream:
    for chunk in stream:
        usage = chunk.usage or usage
        if chunk.choices and chunk.choices[0].delta.content:
            text += chunk.choices[0].delta.content
            chunks += 1

try:
    client.chat.completions.create(model=model, messages=messages, presence_penalty=1)
    refused = None
except openai.BadRequestError as error:
    refused = {"status": error.status_code, "code": error.code, "param": error.param, "type": error.type}

assert whole.usage is not None
assert usage is not None
print(
    json.dumps(
        {
            "version": openai.__version__,
            "whole": whole.choices[0].message.content,
            "whole_tokens": whole.usage.completion_tokens,
            "streamed": text,
            "streamed_tokens": usage.completion_tokens,
            "chunks": chunks,
            "refused": refused,
        }
    )
)
