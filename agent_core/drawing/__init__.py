"""Drawing: charts as PNG and SVG, in a bounded process of their own."""
