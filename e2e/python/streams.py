"""Keeps a number of chat streams under way until a line comes in; prints a line of JSON for each that ended.

Every stream is read to its end, raw, so that one that merely stops is told from one that is done.
"""

import asyncio
import json
import sys

from openai import AsyncOpenAI

url, model, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
# Half a second of tokens: long enough that every change finds streams under way.
STAND_IN = {"stand_in": {"tokens": 10, "interval_ms": 50}}

ended = asyncio.Event()


def tell(**what: str) -> None:
    print(json.dumps(what), flush=True)


async def stream(client: AsyncOpenAI) -> None:
    request = client.chat.completions.with_streaming_response.create(
        model=model,
        messages=[{"role": "user", "content": "hello"}],
        stream=True,
        extra_body=STAND_IN,
    )
    engine, last, tokens = None, None, 0
    async with request as response:
        async for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            last = line.removeprefix("data: ")
            if last != "[DONE]":
                chunk = json.loads(last)
                engine = chunk["system_fingerprint"]
                tokens += bool(chunk["choices"][0]["delta"].get("content"))
    if last != "[DONE]":
        raise RuntimeError(f"the stream of {engine} ended with {last}")
    if tokens != STAND_IN["stand_in"]["tokens"]:
        raise RuntimeError(f"the stream of {engine} had {tokens} tokens")
    tell(engine=engine)


async def keep_going(client: AsyncOpenAI) -> None:
    while not ended.is_set():
        try:
            await stream(client)
        except Exception as error:  # every way to fail counts
            tell(failure=f"{type(error).__name__}: {error}")
            # A failure of each must not become a flood of them.
            await asyncio.sleep(0.1)


async def main() -> None:
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="client-key", max_retries=0, timeout=60)
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await asyncio.gather(*(keep_going(client) for _ in range(count)))


asyncio.run(main())
