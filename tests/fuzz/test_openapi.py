"""The gateway's own routes answer as their OpenAPI document says, and the document says all they answer.

What schemathesis would check of it is checked here: every path, method and status, and whatever a caller may send along.
"""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.profiles import FUZZED
from tests.gateway.door import Caller, House, run

PATHS: Final = ("/health/live", "/health/ready")
METHODS: Final = ("HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "GETS")
"""None of them is described anywhere."""
DRAINING: Final = "draining"
TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict, "string": str, "array": list, "boolean": bool, "number": (int, float), "null": type(None),
}  # fmt: skip
ANNOTATIONS: Final = frozenset(("title", "description", "examples", "default", "deprecated"))
MEDIA: Final = st.sampled_from(
    ["application/json", "text/html", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "*/*", "x", "application/json; q=0", "application/msgpack", ""]
)  # fmt: skip
HEADERS: Final = st.dictionaries(st.sampled_from(["content-type", "accept", "accept-encoding", "content-encoding", "cookie", "range", "if-none-match", "authorization", "origin", "x-http-method-override"]), MEDIA, max_size=4)  # fmt: skip
QUERIES: Final = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=30)


def ask(method: str, target: str, house: House, headers: dict[str, str] | None = None, body: bytes = b"") -> Caller:
    """One request, as it comes in from a socket."""
    caller = Caller(method, target, headers or {}, [body])
    run(house.gateway(caller.scope, caller.receive, caller.send))
    return caller


def house_that(state: str) -> House:
    """A gateway that is running, or draining."""
    house = House()
    if state == DRAINING:
        house.gateway.limits.drain()
    return house


def mismatch(value: Any, schema: dict[str, Any], parts: dict[str, Any]) -> str | None:
    """How a value is not of a schema (JSON Schema 2020-12 as far as the document uses it); None when it is."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return mismatch(value, parts[name], parts)
    unknown = schema.keys() - ANNOTATIONS - {"type", "enum", "properties", "required", "additionalProperties", "items"}
    assert not unknown, f"the checker does not know {unknown}"
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        return f"{value!r} is not of type {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{value!r} is none of {schema['enum']}"
    inner: list[tuple[Any, dict[str, Any]]] = []
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        missing, surplus = set(schema.get("required", ())) - value.keys(), value.keys() - known.keys()
        if missing or (surplus and rest is False):
            return f"{missing} missing, {surplus} too much"
        inner = [(value[key], known[key]) for key in known.keys() & value.keys()]
        inner += [(value[key], rest) for key in surplus if isinstance(rest, dict)]
    elif isinstance(value, list):
        inner = [(item, schema.get("items", {})) for item in value]
    return next((said for said in (mismatch(one, of, parts) for one, of in inner) if said), None)


def check(caller: Caller, document: dict[str, Any], path: str) -> int:
    """The status of an answer to GET, when status, media type and body are described."""
    assert caller.complete
    assert caller.status is not None
    described = document["paths"][path]["get"]["responses"]
    assert str(caller.status) in described, f"{caller.status} is not described"
    contents = described[str(caller.status)]["content"]
    media = caller.headers[b"content-type"].decode().partition(";")[0]
    assert media in contents, f"{media} is not described"
    assert mismatch(caller.json, contents[media]["schema"], document["components"]["schemas"]) is None
    return caller.status


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document as it is served."""
    said = msgspec.json.decode(ask("GET", "/health/openapi/openapi.json", House()).body)
    assert isinstance(said, dict)
    return said


def test_every_route_is_described(document: dict[str, Any]) -> None:
    """Health is described, and nothing besides: all other paths are the providers' own."""
    assert set(document["paths"]) == set(PATHS)
    assert all(set(methods) == {"get"} for methods in document["paths"].values())
    assert document["openapi"].startswith("3.1")
    assert all(one["summary"] for methods in document["paths"].values() for one in methods.values())


@pytest.mark.parametrize("path", PATHS)
def test_what_is_described_is_what_is_answered(path: str, document: dict[str, Any]) -> None:
    """Each status that is described occurs, no other does, and each body is as described."""
    occurred = {check(ask("GET", path, house_that(state)), document, path) for state in ("running", DRAINING)}
    assert {str(status) for status in occurred} == set(document["paths"][path]["get"]["responses"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("state", ["running", DRAINING])
def test_methods_that_are_not_described_are_refused(path: str, state: str) -> None:
    """Each gets a 405 that names those that are; OPTIONS names them too; nothing has changed behind it."""
    house = house_that(state)
    before = ask("GET", path, house)
    for method in METHODS:
        caller = ask(method, path, house, {"content-type": "application/json"}, b'{"status":"down"}')
        assert caller.status == 405, method
        assert set(caller.headers[b"allow"].split(b", ")) == {b"GET", b"OPTIONS"}, method
    options = ask("OPTIONS", path, house)
    assert (options.status, set(options.headers[b"allow"].split(b", "))) == (204, {b"GET", b"OPTIONS"})
    after = ask("GET", path, house)
    assert (after.status, after.body) == (before.status, before.body)
    assert not house.facts.facts


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("state", ["running", DRAINING])
def test_whatever_is_sent_along(path: str, state: str, document: dict[str, Any]) -> None:
    """Queries, headers, types that fit nothing, and bodies that GET has no use for change nothing."""
    house = house_that(state)
    plain = ask("GET", path, house)

    @FUZZED
    @given(query=QUERIES, headers=HEADERS, body=st.binary(max_size=20))
    def holds(query: str, headers: dict[str, str], body: bytes) -> None:
        caller = ask("GET", f"{path}?{query}", house, headers, body)
        assert check(caller, document, path) == plain.status
        assert caller.body == plain.body

    holds()


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        pytest.param({"a": "x"}, {"type": "object", "additionalProperties": {"type": "string"}}, True, id="strings"),
        pytest.param({"a": 1}, {"type": "object", "additionalProperties": {"type": "string"}}, False, id="a number"),
        pytest.param({}, {"type": "object", "required": ["a"]}, False, id="one is missing"),
        pytest.param({"b": 1}, {"properties": {}, "additionalProperties": False}, False, id="one too many"),
        pytest.param([1, "x"], {"type": "array", "items": {"type": "number"}}, False, id="an item"),
        pytest.param("x", {"$ref": "#/components/schemas/Y"}, False, id="no member"),
        pytest.param("y", {"$ref": "#/components/schemas/Y"}, True, id="a member"),
    ],
)
def test_the_checker_itself(value: Any, schema: dict[str, Any], fits: bool) -> None:
    """A check that lets everything through would prove nothing."""
    assert (mismatch(value, schema, {"Y": {"enum": ["y"]}}) is None) is fits
