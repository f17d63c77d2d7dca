"""What an SDK raises: taken down to be compared, with the gateway in between and without."""

from collections.abc import Callable
from typing import Any, Final

import pytest

Way = Callable[..., Any]
"""One way to make a call with an SDK: (address, model, ...) -> what came of it."""

MODELS: Final = {
    "a bad request, 400": "demo-invalid",
    "a key that is none, 401": "shut",
    "a model that is none, 404": "demo-nowhere",
    "too many requests, 429": "demo-busy",
    "a fault of the server, 500": "demo-broken",
    "an overloaded server, 503": "demo-down",
    "a page for people, 502": "demo-html",
    "an error inside a 200": "demo-error-in-200",
}
every_error = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def raised(way: Way, url: str, model: str) -> dict[str, Any]:
    """Class, message and body of what the SDK raises; what it gives where it raises nothing."""
    try:
        given = way(url, model)
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be the same in both places
        shown = ("status_code", "code", "message", "body", "type", "param", "status", "details")
        return {"class": type(error), "said": str(error)} | {name: getattr(error, name, None) for name in shown}
    return {"given": given}


def where(model: str, direct: str, shut: str) -> str:
    """The upstream that has the model."""
    return shut if model == "shut" else direct
