"""Questions to a Prometheus and an Alertmanager."""

from __future__ import annotations

import math

import aiohttp


class QueryError(Exception):
    """Prometheus cannot evaluate the expression; the message says why."""


async def evaluate(http: aiohttp.ClientSession, prometheus: str, expr: str) -> list[float]:
    """The values of an instant vector now, without those that are no number.

    Raises:
        QueryError
    """
    async with http.post(f"{prometheus}/api/v1/query", data={"query": expr}) as response:
        answer = await response.json()
    if answer["status"] != "success":
        raise QueryError(answer["error"])
    data = answer["data"]
    values = (
        [data["result"]] if data["resultType"] == "scalar" else [each["value"] for each in data["result"]]
    )
    numbers = [float(value) for _, value in values]
    return [number for number in numbers if not math.isnan(number)]


async def active_alerts(http: aiohttp.ClientSession, alertmanager: str) -> set[str]:
    """Names of the alerts that would reach somebody: firing, and silenced by no other one."""
    asked = {"active": "true", "inhibited": "false", "silenced": "false"}
    async with http.get(f"{alertmanager}/api/v2/alerts", params=asked) as response:
        return {alert["labels"]["alertname"] for alert in await response.json()}
