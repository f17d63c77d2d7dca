"""Who may call: only holders of a key whose hash is in the settings."""

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import pytest

from gateway import keys
from gateway.config import Key, parse_settings
from gateway.keys import Keyring, entry, new_key
from tests.gateway.door import SETTINGS, House, run, whole

TEAMS = [Key(name=name, sha256=sha256(name.encode() + b" secret").hexdigest()) for name in ("red", "green", "blue")]


def test_without_keys_none_is_required() -> None:
    """A gateway without keys asks for none and knows nobody."""
    assert not Keyring([]).required
    assert Keyring([]).holder(b"red secret") is None


def test_any_key_makes_one_required() -> None:
    """One key in the settings and every caller has to show one."""
    assert Keyring(TEAMS[:1]).required


@pytest.mark.parametrize(
    ("presented", "holder"),
    [
        pytest.param(b"red secret", "red", id="the first key"),
        pytest.param(b"green secret", "green", id="a key in the middle"),
        pytest.param(b"blue secret", "blue", id="the last key"),
        pytest.param(b"Red secret", None, id="another case"),
        pytest.param(b"red secret ", None, id="a space too many"),
        pytest.param(b"", None, id="nothing at all"),
        pytest.param(b"\xff\x00", None, id="bytes that are no text"),
        pytest.param(TEAMS[0].sha256.encode(), None, id="the hash instead of the key"),
    ],
)
def test_a_key_is_known_by_its_hash(presented: bytes, holder: str | None) -> None:
    """Exactly the bytes that were hashed open the door, and say whose they are."""
    assert Keyring(TEAMS).holder(presented) == holder


def test_hex_digits_may_be_in_any_case() -> None:
    """A hash written in capitals is the same hash."""
    assert Keyring([Key(name="red", sha256=TEAMS[0].sha256.upper())]).holder(b"red secret") == "red"


@pytest.mark.parametrize("presented", [b"red secret", b"blue secret", b"no key"], ids=["the first", "the last", "none"])
def test_every_key_is_compared_whichever_fits(presented: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work done does not tell which key was right: all are compared, in constant time."""
    compared = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append(right.hex())
        return hmac.compare_digest(left, right)

    monkeypatch.setattr(keys, "compare_digest", compare)
    Keyring(TEAMS).holder(presented)
    assert compared == [team.sha256 for team in TEAMS]


def test_a_new_key_opens_the_gateway_that_has_its_entry() -> None:
    """What `thinkcap keys new` prints fits together: the entry parses, and the key is known by it."""
    key, digest = new_key()
    upstream = '[upstreams.up]\nurl = "http://127.0.0.1:1"\ndialects = ["chat"]\n'
    settings = parse_settings(upstream + entry("team-a", digest), {})
    assert Keyring(settings.keys).holder(key.encode()) == "team-a"
    assert key not in entry("team-a", digest)


def test_new_keys_are_long_and_never_alike() -> None:
    """A key starts with tc-, carries 256 bits, and comes once."""
    made = {new_key()[0] for _ in range(100)}
    assert len(made) == 100
    assert all(key.startswith("tc-") and len(key) == 46 for key in made)


def _never(name: str) -> Callable[..., Any]:
    def refuse(_self: object, *_: object) -> Any:
        pytest.fail(f"a presented key was looked at by {name}: how long that takes may depend on what it begins with")

    return refuse


class Untouchable(bytes):
    """A presented key, or what holds one: it may be cut out, handed on and hashed by SHA-256, and nothing else.

    Whatever compares it, looks for something in it, or uses it to look something up, fails.
    """

    __slots__ = ()

    def partition(self, sep: Any, /) -> tuple[bytes, bytes, bytes]:
        """The first part is a name, the last may be a key."""
        name, found, rest = bytes(self).partition(sep)
        return name, found, Untouchable(rest)

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[bytes]:
        """Every part may hold a key."""
        return [Untouchable(part) for part in bytes(self).split(sep, maxsplit)]

    def strip(self, chars: Any = None, /) -> "Untouchable":
        """It is the same key."""
        return Untouchable(bytes(self).strip(chars))


LOOKS: Final = (
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__contains__", "startswith", "endswith",
    "find", "rfind", "index", "rindex", "count", "removeprefix", "removesuffix", "translate", "replace", "hex", "decode",
)  # fmt: skip
for _look in LOOKS:
    setattr(Untouchable, _look, _never(_look))


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda key: key == b"red secret", id="compared"),
        pytest.param({b"red secret": 1}.get, id="looked up"),
        pytest.param(lambda key: b"r" in key, id="searched"),
        pytest.param(lambda key: key.startswith(b"r"), id="its beginning"),
        pytest.param(lambda key: key.strip() == b"x", id="stripped and compared"),
        pytest.param(lambda key: key.partition(b" ")[2] == b"secret", id="cut and compared"),
    ],
)
def test_the_trap_works(look: Callable[[bytes], object]) -> None:
    """Every way of looking at a presented key that could take longer the better the guess is caught."""
    with pytest.raises(pytest.fail.Exception, match="a presented key was looked at"):
        look(Untouchable(b"red secret"))


@pytest.mark.parametrize("presented", [b"red secret", b"red secres", b"", b"no key"])
def test_a_presented_key_is_hashed_and_nothing_else(presented: bytes) -> None:
    """Only its SHA-256 is compared, so the time a refusal takes says nothing of how near a guess came."""
    assert Keyring(TEAMS).holder(Untouchable(presented)) == Keyring(TEAMS).holder(presented)


@pytest.mark.parametrize("place", ["authorization", "x-api-key", "x-goog-api-key", "?key"])
@pytest.mark.parametrize("judged", [True, False], ids=["a judged path", "a forwarded path"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_nothing_on_the_way_looks_at_it_either(place: str, judged: bool, known: bool) -> None:
    """From the request's head to the answer, a gateway key is cut out of its place, hashed, and dropped."""
    key = b"red-secret" if known else b"red-secres"
    keyed = f'[[keys]]\nname = "red"\nsha256 = "{sha256(b"red-secret").hexdigest()}"\n{SETTINGS}'
    house = House(whole({}), settings=keyed)
    caller = house.caller(target="/v1/chat/completions?a=b" if judged else "/v1/embeddings?a=b")
    if place == "?key":
        caller.scope["query_string"] = Untouchable(b"a=b&key=" + key)
    else:
        value = Untouchable((b"Bearer " if place == "authorization" else b"") + key)
        caller.scope["headers"].append((place.encode(), value))
    run(house.serve(caller))
    assert caller.status == (200 if known else 401)
    assert [sent.url.raw_path.partition(b"?")[2] for sent in house.upstream.requests] == [b"a=b"] * known
    assert not any(key in value for sent in house.upstream.requests for _, value in sent.headers.raw)
