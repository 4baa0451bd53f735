"""The response time of `/livez` while an API process answers hostile requests, with and without a login."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import httpx2

from cronflow.domain.access import Role
from cronflow.usecases import UseCases
from tests.api.fuzzing import hostile_requests
from tests.bench.words import say, spread

SEED = 1
AT_ONCE = 4
LOOK_EVERY_S = 0.02


async def requests(service: UseCases, url: str, *, count: int) -> None:
    """Send `count` requests, and ask `/livez` meanwhile."""
    _, key = await service.keys.create("hostile", Role.ADMIN)
    async with httpx2.AsyncClient(trust_env=False, base_url=url, timeout=60) as http:
        document = (await http.get("/openapi.json")).json()
        waiting = hostile_requests(document, SEED, count)
        statuses: Counter[int] = Counter()
        closed: list[str] = []

        async def attack(headers: dict[str, str]) -> None:
            for one in waiting:
                try:
                    answer = await http.request(one.method, one.path, content=one.content, headers=headers)
                except httpx2.TransportError:
                    # Refused, and closed before the whole body was sent.
                    closed.append(one.path)
                    continue
                while answer.status_code == 429 and headers and "/auth/" not in one.path:
                    # Above the rate of the key.
                    await asyncio.sleep(float(answer.headers["Retry-After"]))
                    answer = await http.request(one.method, one.path, content=one.content, headers=headers)
                statuses[answer.status_code // 100] += 1

        with_key = {"Authorization": f"Bearer {key}"}
        attackers = [asyncio.create_task(attack(with_key if n else {})) for n in range(AT_ONCE)]
        times = []
        while not all(one.done() for one in attackers):
            began = asyncio.get_running_loop().time()
            (await http.get("/livez")).raise_for_status()
            times.append(timedelta(seconds=asyncio.get_running_loop().time() - began))
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.gather(*attackers)
    answers = ", ".join(f"{n:,} {status}xx" for status, n in sorted(statuses.items()))
    answers += f", {len(closed):,} closed"
    say(f"/livez during {count:,} hostile requests", f"{spread(times)}   {answers}")
