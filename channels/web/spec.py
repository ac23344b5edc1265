"""The web channel: visitors of a page. Its routes are those of the API, which the application serves."""

import re

from channels.spec import ChannelSpec
from channels.web.settings import NAME, SETTINGS

WEB: ChannelSpec[object] = ChannelSpec(name=NAME, address=re.compile(r"web:(?P<id>.+)"), settings=SETTINGS)
