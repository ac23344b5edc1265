"""Secrets in texts that servers return, however they write the characters."""

import json
from html import escape
from urllib.parse import quote

from agent_core.secrets import scrubbed
from tests.cases import for_each

KEY = "AKIA/wJalr+XU <é😀>&'\"K7\\nMD%2f"
PLAIN = "AKIA/wJalr+XUtnFEMI/K7MD"


@for_each(
    "written",
    [
        KEY,
        json.dumps(KEY),
        json.dumps(KEY, ensure_ascii=False),
        json.dumps(KEY).replace("/", "\\/"),  # PHP
        json.dumps(KEY).replace("+", "\\u002B").replace("'", "\\u0027"),  # .NET
        json.dumps(KEY).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),  # Go
        json.dumps(json.dumps({"body": json.dumps(KEY)})),
        json.dumps("https://example.com/?q=" + quote(KEY)),
        "".join(f"\\u{ord(each):04X}" for each in PLAIN),
        "".join(f"\\x{ord(each):02x}" for each in PLAIN),
        quote(KEY, safe=""),
        quote(KEY).lower().replace("akia", "AKIA").replace("wjalr", "wJalr").replace("xu", "XU").replace("k7", "K7")
        .replace("nmd", "nMD"),
        quote(KEY, safe="!'()*"),  # encodeURIComponent
        quote(KEY, safe=" ").replace(" ", "+"),
        quote(quote(KEY)),
        "".join(f"%{byte:02X}" for byte in KEY.encode()),
        escape(KEY),
        escape(KEY).replace("/", "&#x2F;"),
        escape(KEY).replace("/", "&#47;").replace("+", "&plus;").replace("é", "&eacute;"),
    ],
)  # fmt: skip
def test_a_secret_is_masked_however_it_is_escaped(written: str):
    """Nothing of the value is left, and what is around it stays as it is."""
    shown = scrubbed(f'{{"seen": "{written}"}} &amp;\\n', {"K": KEY, "P": PLAIN})
    assert shown.startswith('{"seen": "'), shown
    assert shown.endswith('"} &amp;\\n'), shown
    assert shown.count("[secret ") == 1, shown
    assert not any(part in shown for part in ("AKIA", "wJalr", "K7", "MD", "u0041")), shown


def test_masked_json_stays_json():
    """Whole escapes are replaced, so that an output expression can read the rest."""
    text = json.dumps({"a": [f"\n{PLAIN}\t", "\\" + PLAIN, "é\u2028"]}).replace("/", "\\/")
    assert json.loads(scrubbed(text, {"P": PLAIN})) == {"a": ["\n[secret P]\t", "\\[secret P]", "é\u2028"]}


def test_of_secrets_within_each_other_the_longest_is_named():
    """A short secret inside a long one leaves nothing of the long one; values of three characters are words."""
    assert scrubbed("a x-longer-x b longer c", {"S": "longer", "L": "x-longer-x"}) == "a [secret L] b [secret S] c"
    assert scrubbed("key", {"K": "key"}) == "key"
