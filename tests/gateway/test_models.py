"""The list of models: settings and upstreams joined, and whose credential goes where."""

from typing import Any

import httpx
import msgspec
import pytest

from gateway import models
from tests.gateway.door import Caller, House, Script, answers, fails, run

SETTINGS = """
[upstreams.open]
url = "http://open.test"
dialects = ["chat"]
[upstreams.closed]
url = "http://closed.test"
dialects = ["messages"]
api_key_env = "KEY"
[upstreams.google]
url = "http://google.test"
dialects = ["gemini"]
version_path = "/v9"
[upstreams.second]
url = "http://second.test"
dialects = ["chat"]
[models.mine]
upstream = "closed"
"""
LISTS: dict[str, Any] = {
    "open.test": {"data": [{"id": "a"}, {"id": 7}, "b"]},
    "closed.test": {"data": [{"id": "c"}, {"id": "a"}]},
    "google.test": {"models": [{"name": "models/g"}]},
    "second.test": {"data": [{"id": "s"}]},
}


async def by_host(request: httpx.Request) -> httpx.Response:
    """Each upstream's own list."""
    return await answers(msgspec.json.encode(LISTS[request.url.host]), media="application/json")(request)


def listed(script: Script = by_host, **headers: str) -> tuple[House, Caller]:
    """The list, asked for with these headers."""
    house = House(script, settings=SETTINGS, KEY="own-key")
    return house, house.asks(target="/v1/models", method="GET", **headers)


def names(caller: Caller) -> list[str]:
    """The models of a list."""
    return [model["id"] for model in caller.json["data"]]


def asked(house: House) -> dict[str, dict[str, str | None]]:
    """Who was asked, with which credentials."""
    places = ("authorization", "x-api-key", "x-goog-api-key")
    return {
        request.url.host: {place: request.headers[place] for place in places if place in request.headers}
        for request in house.upstream.requests
    }


def test_one_list() -> None:
    """Models of the settings come first; each is listed once, with who serves it, as both kinds of client read it."""
    house, caller = listed()
    assert names(caller) == ["mine", "a", "c", "s"]
    assert {m["id"]: m["owned_by"] for m in caller.json["data"]} == {
        "mine": "closed",
        "a": "open",
        "c": "closed",
        "s": "second",
    }
    assert caller.json["has_more"] is False
    assert (caller.json["first_id"], caller.json["last_id"]) == ("mine", "s")
    assert "models" not in caller.json
    assert not house.facts.facts  # it is not counted
    assert house.upstream.left == 0


def test_whose_credential_goes_where() -> None:
    """A caller's credential goes where its calls would go; others are asked with their own, or without any."""
    house, _ = listed(authorization="Bearer theirs")
    assert asked(house) == {
        "open.test": {"authorization": "Bearer theirs"},
        "closed.test": {"x-api-key": "own-key"},
        "second.test": {},
    }
    house, _ = listed(x_api_key="theirs", anthropic_version="2023-06-01")
    assert asked(house) == {"closed.test": {"x-api-key": "own-key"}}


def test_googles_client() -> None:
    """It asks on the same path, is known by its header, and reads a list of its own shape."""
    house, caller = listed(x_goog_api_key="theirs")
    assert asked(house) == {"closed.test": {"x-api-key": "own-key"}, "google.test": {"x-goog-api-key": "theirs"}}
    assert str(house.upstream.requests[-1].url) == "http://google.test/v9/models"
    assert [model["name"] for model in caller.json["models"]] == ["models/mine", "models/c", "models/a", "models/g"]


@pytest.mark.parametrize(
    "script",
    [
        fails(httpx.ConnectError("no")),
        answers(b"{}", status=500),
        answers(b"{"),
        answers(b"[1]"),
        answers(b'{"data":5}'),
        answers(b'{"data":{"id":"a"}}'),
        answers(b"\xff"),
        answers(b'{"data":[', httpx.ReadError("no")),
        answers(b" " * models.MOST, b" "),
    ],
    ids=["is down", "answers 500", "answers no JSON", "answers a list", "lists a number", "lists an object",
         "answers no UTF-8", "breaks off", "never ends"],
)  # fmt: skip
def test_an_upstream_without_a_list(script: Script) -> None:
    """The list does without an upstream that does not answer well."""
    house, caller = listed(script)
    assert (caller.status, names(caller)) == (200, ["mine"])
    assert house.upstream.left == 0


def test_an_upstream_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow list is not waited for."""
    monkeypatch.setattr(models, "PATIENCE", 0.02)
    _, caller = listed(answers(30.0))
    assert names(caller) == ["mine"]


def test_no_models_at_all() -> None:
    """An empty list is a list."""
    house = House(answers(b'{"data":[]}'))
    caller = run(house.ask(target="/v1/models", method="GET"))
    assert (caller.json["data"], caller.json["first_id"]) == ([], None)
