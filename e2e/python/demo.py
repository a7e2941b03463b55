"""The demo: installs Refrain as a user would, and shows where requests go while the pool changes.

It runs inside the test cluster, with kubectl and helm on its PATH and the images in the environment.
"""

import asyncio
import collections
import json
import os
import subprocess
import time

from openai import AsyncOpenAI, OpenAI

MODEL = "llama-3.1-8b"
STREAMS = 20
# Stand-in engines have no model: a reply of ten tokens, one every 50 ms.
STAND_IN = {"stand_in": {"tokens": 10, "interval_ms": 50}}
START = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - START:5.1f}s] {text}", flush=True)


def run(*command: str, text: str | None = None, quiet: bool = False) -> str:
    if not quiet:
        say("$ " + " ".join(command))
    return subprocess.run(command, input=text, check=True, text=True, stdout=subprocess.PIPE).stdout


def show(output: str) -> None:
    print("".join(f"         {line}\n" for line in output.splitlines()), end="", flush=True)


def image(name: str) -> dict:
    path, tag = os.environ[f"REFRAIN_IMAGE_{name}"].rsplit(":", 1)
    return {"repository": path.split("/", 1)[1], "tag": tag}


def engines() -> str:
    """A Service "llama" and a Deployment of stand-in engines behind it."""
    container = {
        "name": "engine",
        "image": os.environ["REFRAIN_IMAGE_STAND_IN_ENGINE"],
        "imagePullPolicy": "IfNotPresent",
        "args": ["--models", MODEL],
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 2}}},
    }
    labels = {"app": "llama"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llama"},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 8000, "targetPort": "http"}]},
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [service, deployment]})


def install() -> str:
    """Installs Refrain and the first example; returns the routers' URL."""
    run("helm", "upgrade", "--install", "refrain-crds", "charts/refrain-crds", "--wait")
    values = {
        "image": {"registry": os.environ["REFRAIN_IMAGE_ROUTER"].split("/", 1)[0]},
        "operator": {"image": image("OPERATOR")},
        "router": {"image": image("ROUTER")},
    }
    chart = ("helm", "upgrade", "--install", "refrain", "charts/refrain", "--wait")
    run(*chart, "--values", "-", text=json.dumps(values))
    run("kubectl", "apply", "-f", "-", text=engines())
    run("kubectl", "apply", "-f", "examples/01-one-model.yaml")
    run("kubectl", "wait", "--for=condition=Ready", "route/llama", "--timeout=60s")
    show(run("kubectl", "get", "refrain"))
    address = run("kubectl", "get", "service", "refrain-router", "-o", "jsonpath={.spec.clusterIP}", quiet=True)
    return f"http://{address}/v1"


class Traffic:
    """Streams that are kept under way, and where they went."""

    def __init__(self, url: str) -> None:
        self.client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        self.by_engine: collections.Counter = collections.Counter()
        self.steps: list[tuple[str, collections.Counter]] = []
        self.failures: list[str] = []
        self.ended = asyncio.Event()

    async def stream(self) -> None:
        messages = [{"role": "user", "content": "hello"}]
        chunks = await self.client.chat.completions.create(
            model=MODEL, messages=messages, stream=True, extra_body=STAND_IN
        )
        finished = None
        async for chunk in chunks:
            engine, finished = chunk.system_fingerprint, chunk.choices[0].finish_reason
        if finished != "stop":
            raise RuntimeError(f"a stream of {engine} broke")
        self.by_engine[engine] += 1

    async def keep_going(self) -> None:
        while not self.ended.is_set():
            try:
                await self.stream()
            except Exception as error:  # every way to fail counts
                self.failures.append(str(error))
                await asyncio.sleep(0.1)

    async def step(self, name: str, replicas: int) -> None:
        """Lets the traffic flow over so many engines, and notes where it went."""
        if self.steps:
            await asyncio.to_thread(run, "kubectl", "scale", "deployment/llama", f"--replicas={replicas}")
        await asyncio.to_thread(wait_for_pods, replicas)
        before = self.by_engine.copy()
        await asyncio.sleep(5)
        gone = self.by_engine - before
        self.steps.append((name, gone))
        say(f"{name}: " + ", ".join(f"{engine} {count}" for engine, count in sorted(gone.items())))


def wait_for_pods(replicas: int) -> None:
    """Waits until just so many engines are ready and the others are gone."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        pods = json.loads(run("kubectl", "get", "pods", "-l", "app=llama", "-o", "json", quiet=True))["items"]
        ready = [
            pod
            for pod in pods
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        if len(pods) == len(ready) == replicas:
            return
        time.sleep(0.2)
    raise SystemExit(f"{replicas} engines did not become ready")


async def scale(url: str) -> Traffic:
    traffic = Traffic(url)
    say(f"{STREAMS} streams are kept under way while the pool grows and shrinks")
    streams = [asyncio.create_task(traffic.keep_going()) for _ in range(STREAMS)]
    await traffic.step("1 engine", 1)
    await traffic.step("3 engines", 3)
    await traffic.step("1 again", 1)
    traffic.ended.set()
    await asyncio.gather(*streams)
    return traffic


def table(traffic: Traffic) -> str:
    names = [name for name, _ in traffic.steps]
    width = max(map(len, traffic.by_engine), default=6)
    rows = ["engine".ljust(width) + "".join(name.rjust(12) for name in names) + "all".rjust(12)]
    for engine, total in sorted(traffic.by_engine.items()):
        cells = "".join(str(gone[engine]).rjust(12) for _, gone in traffic.steps)
        rows.append(engine.ljust(width) + cells + str(total).rjust(12))
    return "\n".join(rows)


def main() -> None:
    url = install()
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    say(f'OpenAI(base_url="{url}").chat.completions.create(model="{MODEL}", …)')
    reply = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hello"}])
    say(f"answered by {reply.system_fingerprint}: {reply.choices[0].message.content!r}")
    traffic = asyncio.run(scale(url))
    say("streams that went to each engine, in 5 seconds of each step and in all:")
    show(table(traffic))
    say(f"{sum(traffic.by_engine.values())} streams ended well, {len(traffic.failures)} failed")
    show(run("kubectl", "get", "refrain"))
    if traffic.failures:
        raise SystemExit(f"the first failure: {traffic.failures[0]}")


main()
