"""One request of each kind by the unchanged OpenAI SDK; prints what each gave as JSON."""

import json
import sys

from openai import OpenAI

url, model = sys.argv[1:]
# Without retries no loss hides.
client = OpenAI(base_url=f"{url}/v1", api_key="client-key", max_retries=0, timeout=30)
messages = [{"role": "user", "content": "hello"}]

chat = client.chat.completions.create(model=model, messages=messages)
completion = client.completions.create(model=model, prompt="hello")
streamed = [
    chunk.choices[0].delta.content or ""
    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True)
]
streamed_completion = [
    chunk.choices[0].text for chunk in client.completions.create(model=model, prompt="hello", stream=True)
]
json.dump(
    {
        "chat": chat.choices[0].message.content,
        "engine": chat.system_fingerprint,
        "tokens": chat.usage.completion_tokens,
        "completion": completion.choices[0].text,
        "chat_stream": "".join(streamed),
        "completion_stream": "".join(streamed_completion),
        "models": [card.model_dump() for card in client.models.list().data],
    },
    sys.stdout,
)
