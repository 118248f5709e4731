"""Tenants next to each other while things break: R40, R46, R47."""

from __future__ import annotations

import secrets
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles

import httpx

from chaos.load import Answer, Load, ask, loaded
from chaos.runs.upstream import hostile, site
from chaos.runs.workers import held
from chaos.stack import WEBS, Stack
from chaos.verdict import run
from tests.fakes.raw_server import RawServer, Request, Wire, result, serving_in_thread, text_result
from tests.live.api import Api

NOISY_CALLS = 600
PROBES = 60
NOISE_FACTOR = 1.5
FLOOR_SECONDS = 0.03
"""Below this a quotient of two latencies says nothing on a machine that is shared."""


def p95(load: Load) -> float:
    took = []
    for number in range(PROBES):
        answer = load.ask(load.apis[number % 2], secrets.token_hex(6), 1)
        assert answer.status == 200, answer
        took.append(answer.seconds)
    return quantiles(took, n=20)[-1]


@run(
    "R40", "a tenant with 600 hanging calls gets 429; its neighbour's p95 ≤ 1.5 times idle + 30 ms"
)
def noisy(stack: Stack, _rounds: int) -> str:
    key = stack.new_tenant("noisy", is_limited=True)
    with loaded(stack) as quiet, site(stack, hostile()) as _:
        idle = p95(quiet)
        api, slug = stack.api("web1", key), f"noise-{secrets.token_hex(3)}"
        with serving_in_thread(hostile()) as server:
            api.connected(slug, server.url)
            prefer = {"Prefer": "respond-async"}
            found: Counter[str] = Counter()
            with ThreadPoolExecutor(16) as threads:

                def hang(_number: int) -> Answer:
                    return ask(lambda: api.call(slug, "hang", timeoutMs=30_000, headers=prefer))

                for answer in threads.map(hang, range(NOISY_CALLS)):
                    found[f"{answer.status} {answer.code}".strip()] += 1
            noise = p95(quiet)
            api.http.delete(f"/api/v1/servers/{slug}")
        assert found["429 limit_reached"] > 0, dict(found)
        bound = NOISE_FACTOR * idle + FLOOR_SECONDS
        assert noise <= bound, f"p95 {idle * 1000:.0f} ms idle, {noise * 1000:.0f} ms with noise"
    return f"{dict(found)}; neighbour's p95 {idle * 1000:.0f} → {noise * 1000:.0f} ms"


@run("R46", "strangers get 404 for ids of others, also while workers and Redis die", is_quick=True)
def strangers(stack: Stack, _rounds: int) -> str:
    theirs = [stack.api(web, stack.new_tenant("stranger")) for web in WEBS]
    seen: Counter[int] = Counter()
    with loaded(stack) as load:
        keys = load.send(10, ms=3000)
        load.until_running(keys)
        ids = [
            row[0]
            for row in stack.sql("SELECT id FROM connectors_toolcall WHERE server = %s", load.slug)
        ]
        for victim in (held(load), "redis"):
            stack.programs[victim].signal(signal.SIGKILL)
            for api in theirs:
                for call_id in ids:
                    seen.update(peek(api, load.slug, str(call_id)))
        load.sound()
    assert set(seen) <= {404, 503}, dict(seen)
    stack.heal()
    return f"answers by status: {dict(seen)}"


def peek(api: Api, slug: str, call_id: str) -> list[int]:
    """Ask for somebody else's server and call in every way."""
    asked: list[httpx.Response] = [
        api.http.get(f"/api/v1/servers/{slug}"),
        api.http.get(f"/api/v1/servers/{slug}/tools"),
        api.http.get(f"/api/v1/calls/{call_id}"),
        api.http.post(f"/api/v1/calls/{call_id}/cancel"),
        api.call(slug, "echo", {"text": "stranger"}),
    ]
    listed = api.http.get("/api/v1/calls")
    assert call_id not in listed.text, "a stranger's list names the call"
    return [response.status_code for response in asked]


class Echo(RawServer):
    """Answers with what it was sent, in the order that hurts: the later request first."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, text_result(str(request.arguments.get("text")))))


@run("R47", "two tenants with the same ids on the same workers: no answer crosses", rounds=10_000)
def crossings(stack: Stack, rounds: int) -> str:
    keys = [stack.new_tenant("cross") for _ in range(2)]
    slug = f"same-{secrets.token_hex(3)}"
    started = time.monotonic()
    with serving_in_thread(Echo()) as server, ThreadPoolExecutor(24) as threads:
        apis = [[stack.api(web, key) for web in WEBS] for key in keys]
        for own in apis:
            own[0].connected(slug, server.url)

        def one(number: int) -> bool:
            text = f"{number % 2}-{secrets.token_hex(8)}"
            api = apis[number % 2][number // 2 % 2]
            return ask(lambda: api.call(slug, "echo", {"text": text})).text == text

        right = sum(threads.map(one, range(rounds)))
    assert right == rounds, f"{rounds - right} of {rounds} answers were not the caller's own"
    return f"{rounds} calls in {time.monotonic() - started:.0f} s, 0 crossings"
