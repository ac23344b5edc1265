"""The words of Vega-Lite 5 and 6 that a chart may use, and why it may not use the others.

Source: the JSON schemas of Vega-Lite 5.23 and 6.4 and its documentation.
"""

import re

from agent_core.renders.vega.shapes import words

MARKS = words("arc area bar boxplot circle errorband errorbar line point rect rule square text tick trail")
MARK_MEANT = {
    "pie": "arc",
    "donut": "arc",
    "doughnut": "arc",
    "column": "bar",
    "histogram": "bar",
    "scatter": "point",
    "bubble": "circle",
    "dot": "circle",
    "heatmap": "rect",
    "box": "boxplot",
    "box-plot": "boxplot",
    "label": "text",
}
"""Names that other libraries have for a mark."""
MARKS_REFUSED = {
    "image": "images are not drawn; use a point with a `shape`, or the mark `text`",
    "geoshape": "maps are not drawn; show the figures as a bar chart, or points by `longitude` and `latitude`",
}

CHANNELS = words(
    """x y x2 y2 xError xError2 yError yError2 xOffset yOffset theta theta2 radius radius2 longitude latitude
    longitude2 latitude2 color fill stroke opacity fillOpacity strokeOpacity strokeWidth strokeDash size angle shape
    key text description tooltip detail order row column facet"""
)
LIST_CHANNELS = frozenset({"tooltip", "detail", "order"})
"""Channels that may have a list of definitions."""
SERIES = ("color", "fill", "stroke", "shape", "strokeDash")
"""Channels that draw one series for each value of a discrete field."""
FACETS = ("row", "column", "facet")

DEFINITION = words(
    """field type aggregate bin timeUnit title value datum scale axis legend sort stack condition format formatType
    header bandPosition band impute align center columns spacing bounds"""
)
"""Keys of the definition of a channel."""
TYPES = frozenset({"quantitative", "temporal", "ordinal", "nominal"})
AGGREGATES = words(
    """argmax argmin average count distinct max mean median min missing product q1 q3 ci0 ci1 stderr stdev stdevp sum
    valid values variance variancep exponential exponentialb"""
)
WINDOW_OPS = AGGREGATES | words(
    "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value"
)
SCALES = words(
    """linear log pow sqrt symlog identity sequential time utc quantile quantize threshold bin-ordinal ordinal point
    band"""
)

SCHEMES = words(
    """accent category10 category20 category20b category20c dark2 observable10 paired pastel1 pastel2 set1 set2 set3
    tableau10 tableau20 blues tealblues teals greens browns greys purples warmgreys reds oranges turbo viridis inferno
    magma plasma cividis bluegreen bluepurple goldgreen goldorange goldred greenblue orangered purplebluegreen
    purpleblue purplered redpurple yellowgreenblue yellowgreen yelloworangebrown yelloworangered darkblue darkgold
    darkgreen darkmulti darkred lightgreyred lightgreyteal lightmulti lightorange lighttealblue blueorange
    brownbluegreen purplegreen pinkyellowgreen purpleorange redblue redgrey redyellowblue redyellowgreen spectral
    rainbow sinebow"""
)
"""Schemes of colours that Vega 6 draws, in any case of letters; it does not know `blues-3` of the schema."""

_PARTS = ("year", "quarter", "month", "week", "date", "day", "dayofyear", "hours", "minutes", "seconds", "milliseconds")
TIME_UNIT = re.compile("(utc)?(binned)?(utc)?(?=.)" + "".join(f"({part})?" for part in _PARTS))
TIME_UNITS = words(
    """year quarter month week date day hours minutes yearquarter yearmonth yearmonthdate yearweek monthdate
    yearmonthdatehours yearmonthdatehoursminutes hoursminutes"""
)
"""Units that people mean, for suggestions."""

COMPOSED = ("layer", "concat", "hconcat", "vconcat")
"""Keys whose value is a list of views."""
VIEW = words(
    """$schema name description title data datasets mark encoding transform width height view spec facet repeat
    columns resolve config autosize padding background projection align bounds center spacing"""
) | frozenset(COMPOSED)

REFUSED = {
    "url": "nothing is fetched; put the rows into `data.values`",
    "href": "charts have no links; remove it",
    "params": "charts are drawn without parameters and selections; remove it",
    "param": "charts are drawn without parameters and selections; remove it",
    "selection": "charts are drawn without parameters and selections; remove it",
    "select": "charts are drawn without parameters and selections; remove it",
    "bind": "charts are drawn without parameters and selections; remove it",
    "signal": "expressions are not evaluated; write the value itself",
    "signals": "expressions are not evaluated; write the value itself",
    "expr": "expressions are not evaluated; write the value itself",
    "calculate": "expressions are not evaluated; compute the field in the rows",
    "sequence": "rows are not generated; put them into `data.values`",
    "graticule": "maps are not drawn; remove it",
    "sphere": "maps are not drawn; remove it",
    "lookup": "rows are not joined; join them before, into `data.values`",
    "from": "rows are not joined; join them before, into `data.values`",
    "loader": "nothing is fetched; remove it",
    "cursor": "charts have no pointer of their own; remove it",
    "events": "charts have no interaction; remove it",
    "encode": "this is Vega; use the properties of Vega-Lite",
    "customFormatTypes": "there are no own formats; use `format` with a d3 format",
    "__proto__": "this is no property of Vega-Lite; remove it",
    "constructor": "this is no property of Vega-Lite; remove it",
    "prototype": "this is no property of Vega-Lite; remove it",
}
"""Keys that are refused wherever they are outside data, and what to do instead."""
EXPRESSION = re.compile(r"[a-z]\w*Expr")
EXPRESSION_FIX = "expressions are not evaluated; use `format`, or compute the text in the rows"
