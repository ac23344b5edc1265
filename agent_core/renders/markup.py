"""What in a text is HTML or SVG: tags of elements that exist, not every `<`."""

import re

_ACTIVE = (
    "applet|audio|base|body|embed|foreignobject|frame|frameset|html|iframe|image|img|input|math|meta|object|script"
    "|style|svg|template|video"
)
"""Elements that run or fetch something: refused without an end, and with blanks in front."""
_ELEMENTS = (
    "abbr|address|animate|article|aside|bdi|bdo|blockquote|br|button|canvas|center|circle|code|col|defs|del|details|dialog"
    "|div|dl|dt|dd|em|fieldset|figure|font|footer|form|h[1-6]|head|header|hr|ins|kbd|label|li|link|main|mark|marquee|menu"
    "|nav|noscript|ol|option|output|path|picture|plaintext|pre|rect|ruby|samp|section|select|set|slot|small|source|span"
    "|strike|strong|sub|summary|sup|table|tbody|td|textarea|tfoot|th|thead|time|title|tr|track|tt|ul|use|var|wbr|xmp"
)
"""Elements that only mark a text; those of one letter need an attribute or an end, since `a <b> c` is none."""
MARKUP = re.compile(
    rf"<\s{{0,8}}/?\s{{0,8}}(?:{_ACTIVE})\b|(?:<[a-z][\w-]*>[^<>]*)?</[a-z][^<>]*>|<(?:{_ELEMENTS})(?![\w-])[^<>]*>"
    r"|<[a-z][^<>]*[\s/\"'][\w:.-]+\s*=[^<>]*>|<!|<\?",
    re.IGNORECASE,
)
"""Blanks are bounded: a text of `<` and thousands of them would be read once for each."""
