"""What `thinkcap check` and `thinkcap explain` print: what is in force, and where each value comes from."""

import pytest
from msgspec import Struct

from gateway import check
from gateway.check import explain, report, warnings
from gateway.config import Settings, default_settings, parse_settings
from gateway.words import Level, UpstreamKind

SETTINGS = """
[server]
host = "0.0.0.0"
[[keys]]
name = "team-a"
sha256 = "b53b5edf5d9f8c56815de368f9857e6f3fbf912eb140850af60e82cd4ca364fa"
[upstreams.google]
url = "https://g.example"
kind = "gemini"
dialects = ["gemini"]
api_key_env = "GEMINI_API_KEY"
ask_usage = false
[upstreams.local]
url = "http://127.0.0.1:8000"
kind = "llama.cpp"
dialects = ["chat", "messages"]
[upstreams.late]
url = "http://127.0.0.1:8001"
dialects = ["chat", "responses"]
thinking_method = "give_up"
[models."flash 3.8"]
upstream = "google"
levels = ["high", "low"]
[models.qwen]
upstream = "local"
thinking_cap = 2048
[models.listed]
upstream = "late"
[models.plain]
upstream = "google"
levels = []
[level_fallback.ceiling]
compaction = "low"
[[purposes]]
purpose = "session-title"
model = "nano"
path = "/v1/chat/"
[[purposes]]
purpose = "session-title"
header = { name = "X-Task", equals = "s3cret" }
"""


class Known(Struct, frozen=True):
    """A row of a catalogue."""

    levels: tuple[Level, ...]
    source: str
    date: str


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of one model, so that these tests do not follow the shipped one."""

    def declared(kind: UpstreamKind, model: str) -> Known | None:
        known = Known(("off", "high"), "https://docs.example/levels", "2026-01")
        return known if (kind, model) == ("generic", "listed") else None

    monkeypatch.setattr(check, "declared", declared)


def settings(more: str = "") -> Settings:
    """The settings of these tests, with further lines."""
    return parse_settings(SETTINGS + more, {"GEMINI_API_KEY": "hunter2"})


def rows(text: str) -> list[list[str]]:
    """The cells of a report, line by line."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_the_report_says_where_it_listens_and_who_may_call() -> None:
    """The head of the report, with the names of the keys and the fingerprint of the text."""
    parsed = settings()
    assert rows(report(parsed))[:4] == [
        ["listens on", "http://0.0.0.0:8080"],
        ["metrics on", "http://127.0.0.1:9464/metrics"],
        ["callers", "holders of the keys team-a"],
        ["settings", f"sha256 {parsed.sha256}"],
    ]


def test_the_report_says_of_every_upstream_what_is_in_force_and_why() -> None:
    """A trait is by kind or set; the key is named by its variable."""
    table = rows(report(settings()))[5:9]
    assert table == [
        ["UPSTREAM", "KIND", "DIALECTS", "KEY", "USAGE ASKED", "CAP ENFORCED", "URL"],
        ["google", "gemini", "gemini", "GEMINI_API_KEY", "no (set)", "no (kind)", "https://g.example"],
        ["local", "llama.cpp", "chat messages", "the caller's", "yes (kind)", "yes (kind)", "http://127.0.0.1:8000"],
        ["late", "generic", "chat responses", "the caller's", "yes (kind)", "no (kind)", "http://127.0.0.1:8001"],
    ]


def test_the_report_says_of_every_model_its_cap_and_levels_and_where_they_come_from() -> None:
    """Caps are set or default, methods by kind or set, levels from the settings, the catalogue, or nobody."""
    both = "chat: control then budget, messages: budget (kind)"
    assert rows(report(settings()))[10:16] == [
        ["MODEL", "UPSTREAM", "THINKING CAP", "HOW IT ACTS", "LEVELS", "LEVELS FROM"],
        ["flash 3.8", "google", "none (default)", "watch (kind)", "low high", "settings"],
        ["qwen", "local", "2048 + 256 (set)", both, "-", "nobody"],
        ["listed", "late", "none (default)", "give_up (set)", "off high", "catalogue, 2026-01"],
        ["plain", "google", "none (default)", "watch (kind)", "takes none", "settings"],
        ["any other", "by dialect", "none (default)", "by upstream", "by model", "catalogue"],
    ]  # fmt: skip


def test_the_report_says_of_every_purpose_what_happens_and_how_it_is_recognised() -> None:
    """Conditions of one entry go together, entries are alternatives; what a header must equal is not printed."""
    text = report(settings())
    by = "model nano and path /v1/chat/...; or header X-Task"
    assert rows(text)[17:21] == [
        ["PURPOSE", "LEVELS FALL BACK", "CEILING", "RECOGNISED BY"],
        ["conversation", "no", "-", "no name"],
        ["compaction", "yes", "low", "-"],
        ["session-title", "yes", "-", by],
    ]
    assert "s3cret" not in text
    assert "hunter2" not in text


def test_the_report_is_aligned_and_ends_with_the_warnings() -> None:
    """Every column starts where its heading does; no line ends in spaces; a warning is a line of its own."""
    lines = report(settings()).splitlines()
    heading = next(line for line in lines if line.startswith("MODEL"))
    row = next(line for line in lines if line.startswith("qwen"))
    assert row.index("local") == heading.index("UPSTREAM")
    assert row.index("nobody") == heading.index("LEVELS FROM")
    assert all(line == line.rstrip() for line in lines)
    assert lines[-1].startswith("warning: models.qwen.levels: ")


def test_without_anything_to_warn_of_there_are_no_warnings() -> None:
    """A report may end with its last table."""
    text = SETTINGS.replace("thinking_cap = 2048", 'levels = ["high"]')
    parsed = parse_settings(text, {"GEMINI_API_KEY": "x" * 16})
    assert list(warnings(parsed)) == []
    assert report(parsed).splitlines()[-1].startswith("session-title")


WARNINGS = {
    "without keys everyone may call": ("", "keys: there are none, so everyone who reaches 127.0.0.1:8080"),
    "control at a server not known to take it": (
        "thinking_method = 'control'",
        "upstreams.up.thinking_method: control is a call that only llama.cpp",
    ),
    "a version in the url, and none set": (
        "[upstreams.v]\nurl = 'http://a/v1'\ndialects = ['chat']",
        "upstreams.v.url: callers' paths bring their own version",
    ),
    "a model's cap that cannot act": (
        "[models.'m 1']\nupstream = 'up'\nthinking_cap = 9",
        'models."m 1".thinking_cap: at up (chat) thinking is only watched',
    ),
    "the default cap that cannot act on a model": (
        "[models.m]\nupstream = 'up'\n[thinking]\ncap = 9",
        "models.m.thinking_cap: at up (chat)",
    ),
    "the default cap that cannot act on models not listed": (
        "[thinking]\ncap = 9",
        "thinking.cap: at up (chat) thinking is only watched",
    ),
    "a budget where no field takes one": (
        "thinking_method = 'budget'\n[thinking]\ncap = 9",
        "thinking.cap: at up (chat) there is no budget, the cap cannot act",
    ),
    "giving up, which whole answers do not see": (
        "thinking_method = 'give_up'\n[thinking]\ncap = 9",
        "thinking.cap: at up (chat) only streams are given up, whole answers are counted",
    ),
    "a key too short to be hidden": (
        "api_key_env = 'SHORT'",
        "upstreams.up.api_key_env: the key has fewer than 16 characters: it is not hidden in answers",
    ),
    "levels nobody declares": ("[models.m]\nupstream = 'up'", "models.m.levels: nobody declares them"),
    "levels refused but not declared": (
        "[models.m]\nupstream = 'up'\nundeclared_level = 'refuse'",
        "models.m.undeclared_level: no levels are declared",
    ),
    "a ceiling for what does not fall back": (
        "[level_fallback.ceiling]\nchat = 'low'",
        "level_fallback.ceiling.chat: it is not among",
    ),
}
UP = '[upstreams.up]\nurl = "http://127.0.0.1:1"\ndialects = ["chat"]\n'


@pytest.mark.parametrize(("text", "says"), WARNINGS.values(), ids=WARNINGS)
def test_what_is_perhaps_not_meant_is_warned_of(text: str, says: str) -> None:
    """Each warning names its key path; the gateway starts all the same."""
    assert any(warning.startswith(says) for warning in warnings(parse_settings(UP + text, {"SHORT": "x" * 15})))


def test_a_key_that_is_hidden_is_no_matter() -> None:
    """Sixteen characters are a key; neither they nor those of a shorter one are said."""
    text = UP + "api_key_env = 'KEY'"
    assert not any("api_key" in warning for warning in warnings(parse_settings(text, {"KEY": "x" * 16})))
    assert "sk-short" not in report(parse_settings(text, {"KEY": "sk-short"}))


def test_undeclared_levels_are_no_matter_where_nothing_falls_back() -> None:
    """With level fallback off nobody is bothered with levels."""
    text = UP + "[models.m]\nupstream = 'up'\n[level_fallback]\nenabled = false"
    assert not any(".levels" in warning for warning in warnings(parse_settings(text, {})))


def test_a_listed_model_is_explained() -> None:
    """Its cap, how it acts in each dialect of its upstream, and where its levels come from."""
    assert rows(explain(settings(), "qwen"))[:6] == [
        ["model", "qwen"],
        ["thinking cap", "2048 + 256 (set)"],
        [],
        ["DIALECT", "UPSTREAM", "CAP ACTS BY", "LEVELS", "LEVELS FROM"],
        ["chat", "local", "control then budget (kind)", "-", "nobody"],
        ["messages", "local", "budget (kind)", "-", "nobody"],
    ]


def test_levels_of_the_catalogue_are_explained_with_their_source() -> None:
    """The catalogue says where it read the levels, and when; here once for both dialects of the upstream."""
    lines = rows(explain(settings(), "listed"))
    assert lines[2] == ["catalogue's source", "https://docs.example/levels"]
    assert [line[3:] for line in lines[5:7]] == [["off high", "catalogue, 2026-01"]] * 2


def test_a_model_that_is_not_listed_goes_to_the_first_upstream_of_each_dialect() -> None:
    """Order in the file decides: chat is local's, though late speaks it too."""
    lines = rows(explain(settings(), "new"))
    assert lines[0] == ["model", "new (not listed)"]
    assert [line[:3] for line in lines[4:8]] == [
        ["chat", "local", "control then budget (kind)"],
        ["messages", "local", "budget (kind)"],
        ["responses", "late", "give_up (set)"],
        ["gemini", "google", "watch (kind)"],
    ]


def test_where_a_refused_level_would_go_is_said_for_each_purpose() -> None:
    """The walk of rule 3 over the declared levels, under the purpose's ceiling; off is never a target."""
    lines = rows(explain(settings(), "flash 3.8"))
    heading = lines.index(["REFUSED BY google", "SENT FOR compaction", "SENT FOR session-title"])
    passed = "nothing, passed on"
    assert lines[heading + 1 : -1] == [
        ["off", "low", "low"],
        ["minimal", "low", "low"],
        ["low", passed, "high"],
        ["medium", "low", "high"],
        ["high", "low", "low"],
        ["xhigh", "low", "high"],
        ["max", "low", "high"],
    ]
    assert lines[-1] == ["A list of levels in the refusal wins over these."]


def test_one_level_is_explained_alone() -> None:
    """Asked for one level, the answer is its row."""
    assert rows(explain(settings(), "flash 3.8", "minimal"))[-2] == ["minimal", "low", "low"]
    assert len(rows(explain(settings(), "flash 3.8", "minimal"))) == 9


def test_without_declared_levels_only_the_refusal_can_say_where_to_go() -> None:
    """Neither settings nor catalogue know the model, or they say that it takes none."""
    for model in ("qwen", "plain"):
        assert "replaced only by one that the refusal itself lists" in explain(settings(), model, "low")


@pytest.mark.parametrize("line", ["enabled = false", "purposes = []", "max_retries = 0"])
def test_with_fallback_off_a_refusal_is_passed_on(line: str) -> None:
    """Off is off, however it was said."""
    text = UP + f"[models.m]\nupstream = 'up'\nlevels = ['low']\n[level_fallback]\n{line}"
    assert "level_fallback is off" in explain(parse_settings(text, {}), "m", "high")


def test_the_built_in_settings_can_be_reported() -> None:
    """A gateway without a file reports four dialects and one warning."""
    text = report(default_settings({}))
    assert text.count("warning: ") == 1
    assert "everyone, without a key" in text
