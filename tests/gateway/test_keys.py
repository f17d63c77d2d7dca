"""Who may call: only holders of a key whose hash is in the settings."""

import hmac
from hashlib import sha256

import pytest

from gateway import keys
from gateway.config import Key, parse_settings
from gateway.keys import Keyring, entry, new_key

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
