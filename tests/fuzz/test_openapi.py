"""The gateway's own routes answer as their OpenAPI document says, and the document says all of them."""

import asyncio
from typing import Any, Final

import msgspec
import pytest

from tests.gateway.door import Caller, House, run

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SHAPES: Final[dict[str, type]] = {"object": dict, "string": str, "array": list, "boolean": bool}


def _ask(house: House, method: str, path: str) -> Caller:
    return run(house.serve(Caller(method, path, {}, [b""])))


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is of a schema, as far as these routes have any."""
    if not isinstance(value, SHAPES[schema["type"]]):
        return False
    inner = schema.get("additionalProperties")
    return not isinstance(value, dict) or inner is None or all(_fits(one, inner) for one in value.values())


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document as it is served."""
    said = msgspec.json.decode(_ask(House(), "GET", "/health/openapi/openapi.json").body)
    assert isinstance(said, dict)
    return said


def test_every_route_is_described(document: dict[str, Any]) -> None:
    """Health is described, and nothing besides: all other paths are the providers' own."""
    assert set(document["paths"]) == {"/health/live", "/health/ready"}
    assert all(set(methods) == {"get"} for methods in document["paths"].values())


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
@pytest.mark.parametrize("draining", [False, True], ids=["running", "draining"])
def test_answers_are_what_is_described(path: str, draining: bool, document: dict[str, Any]) -> None:
    """Statuses and bodies fit the document; a method that is not in it changes nothing and is refused."""

    async def main() -> None:
        house = House()
        if draining:
            house.gateway.limits.drain()
        for method in METHODS:
            caller = await asyncio.wait_for(house.serve(Caller(method, path, {}, [b""])), 5)
            if method != "GET":
                assert caller.status in {204, 400, 404, 405, 503}
                continue
            described = document["paths"][path]["get"]["responses"]
            ready = not draining or path == "/health/live"
            assert caller.status == (200 if ready else 503)
            schema = described["200"]["content"]["application/json"]["schema"]
            assert _fits(caller.json, schema)

    run(main())
