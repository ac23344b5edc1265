"""What an agent may configure of its place on a page: texts that can be seen, pictures that are safe, whole origins."""

from base64 import b64encode

import pytest

from agent_core.errors import InvalidInput
from channels.web.settings import MAX_DATA, SETTINGS, StartPrompt, Web, signs
from tests.cases import for_each

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PROMPT = {"label": "Where is my order?", "prompt": "Where is order A-1001?"}


def data(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


@for_each(
    "given",
    [
        {"title": "Support", "greeting": "Hello!\nHow can we help?", "avatar": "https://cdn.example.com/a.png?v=2"},
        {"avatar": data("png", PNG)},
        {"avatar": data("jpeg", b"\xff\xd8\xff\xe0")},
        {"avatar": "PL"},
        {"avatar": FAMILY},
        {"avatar": "\U0001f1eb\U0001f1f7"},
        {"prompts": [{**PROMPT, "icon": "\u2728"}] * 6},
        {"greeting": "\u0645\u0631\u062d\u0628\u0627"},
        {"overlap": "interrupt"},
        {"anonymous": {"origins": ["https://shop.example", "https://a.b.example:8443", "http://localhost:3000"]}},
    ],
)
def test_settings_are_taken(given):
    """What a page can show is taken, and is stored as it was given."""
    read = SETTINGS.read(given)
    assert {name: value for name, value in SETTINGS.stored(read).items() if name in given} == {
        **given,
        **({"prompts": [{**PROMPT, "icon": "\u2728"}] * 6} if "prompts" in given else {}),
    }


@for_each(
    "path, given",
    [
        ("$.title", {"title": " "}),
        ("$.title", {"title": "two\nlines"}),
        ("$.title", {"title": "x" * 81}),
        ("$.title", {"title": "turned \u202e round"}),
        ("$.greeting", {"greeting": "x" * 501}),
        ("$.greeting", {"greeting": "\x00"}),
        ("$.avatar", {"avatar": "http://example.com/a.png"}),
        ("$.avatar", {"avatar": "javascript:alert(1)"}),
        ("$.avatar", {"avatar": "JavaScript:alert(1)"}),
        ("$.avatar", {"avatar": "https://user:word@example.com/a.png"}),
        ("$.avatar", {"avatar": "https://example.com/a'b.png"}),
        ("$.avatar", {"avatar": 'https://example.com/"onload=x'}),
        ("$.avatar", {"avatar": "https://example.com/" + "a" * 2000}),
        ("$.avatar", {"avatar": data("svg+xml", b"<svg/>")}),
        ("$.avatar", {"avatar": data("png", b"<svg onload=alert(1)>")}),
        ("$.avatar", {"avatar": "data:text/html,<script>"}),
        ("$.avatar", {"avatar": data("png", PNG + bytes(MAX_DATA))}),
        ("$.avatar", {"avatar": "ABC"}),
        ("$.avatar", {"avatar": "\u200b"}),
        ("$.avatar", {"avatar": ""}),
        ("$.prompts", {"prompts": [PROMPT] * 7}),
        ("$.prompts[0].label", {"prompts": [{**PROMPT, "label": ""}]}),
        ("$.prompts[0].prompt", {"prompts": [{**PROMPT, "prompt": "x" * 2001}]}),
        ("$.prompts[0].icon", {"prompts": [{**PROMPT, "icon": "https://example.com/a.png"}]}),
        ("$.prompts[0].colour", {"prompts": [{**PROMPT, "colour": "red"}]}),
        ("$.overlap", {"overlap": "reject"}),
        ("$.anonymous.origins", {"anonymous": {"origins": []}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["*"]}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["null"]}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["http://shop.example"]}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["https://shop.example/"]}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["https://*.example"]}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["https://Shop.example"]}}),
        ("$.anonymous.origins[0]", {"anonymous": {"origins": ["https://shop.example:443"]}}),
    ],
)
def test_what_no_page_could_show_is_refused(path, given):
    """Each fault is reported at its field."""
    with pytest.raises(InvalidInput) as raised:
        SETTINGS.read(given)
    assert raised.value.path == path


def test_signs_are_counted_as_people_count_them():
    """A family, a flag and a letter with its accent are one sign each."""
    assert signs(FAMILY + "\U0001f1eb\U0001f1f7\U0001f1eb\U0001f1f7" + "e\u0301") == [
        FAMILY,
        "\U0001f1eb\U0001f1f7",
        "\U0001f1eb\U0001f1f7",
        "e\u0301",
    ]


def test_what_this_version_cannot_read_is_left_out():
    """A newer version's field, and one whose value is none of ours, do not take the rest away."""
    found = SETTINGS.of("web", {"web": {"title": "Shop", "overlap": "later", "prompts": [PROMPT], "voice": "low"}})
    assert found == Web(title="Shop", prompts=(StartPrompt(**PROMPT),))
