# SPDX-License-Identifier: MIT
"""The style of the report and the pictures: wide or on a phone, light or dark."""

_COLOURS = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2128; --faint: #5f6a79; --rule: #d9dee5;
  --ours: #1f6feb; --variant: #93bdf5; --peer: #a8b0bb; --harness: #dfe3e8; --panel: #f5f7f9; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e4e8ed; --faint: #98a2af;
  --rule: #333b45; --ours: #5aa2ff; --variant: #33598c; --peer: #667080; --harness: #363e48;
  --panel: #1c2228; } }
"""

_PAGE = """
* { box-sizing: border-box; }
body { margin: 2rem auto; padding: 0 1.5rem; max-width: 92rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin: 0 0 .25rem; }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
section { margin-top: 2.5rem; padding-top: 1.5rem; border-top: 1px solid var(--rule); }
p { max-width: 52rem; margin: .4rem 0; }
a { color: var(--ours); }
nav ul { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; padding: 0;
  list-style: none; }
nav li { display: contents; }
figure { margin: 1rem 0; } figcaption { color: var(--faint); margin-top: .5rem; }
.panels { display: grid; gap: 1.25rem 1rem; max-width: 64rem;
  grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); }
.panels > svg { grid-column: var(--column); grid-row: var(--row); }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .45rem; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; vertical-align: top; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
thead th { vertical-align: bottom; } tbody th { font-weight: normal; }
table.prose td, table.prose th { text-align: left; white-space: normal; min-width: 8rem; }
small { color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem;
  margin: .75rem 0; }
dt { color: var(--faint); } dd { margin: 0; min-width: 0; }
code { background: var(--panel); padding: .15rem .4rem; border-radius: 3px; }
svg { width: 100%; height: auto; }
"""

_CHARTS = """
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .title { font-weight: 600; font-size: 13px; } svg .tick, svg .note { fill: var(--faint); }
svg .ours.name, svg .ours.value { font-weight: 600; } svg .harness.name { font-style: italic; }
svg .bar.ours { fill: var(--ours); } svg .bar.variant { fill: var(--variant); }
svg .bar.peer { fill: var(--peer); } svg .bar.harness { fill: var(--harness); }
svg .grid { stroke: var(--rule); stroke-width: 1; } svg .whisker { stroke: var(--ink); }
svg .gap { stroke: var(--paper); stroke-width: 4; fill: none; }
svg .line, svg .lead { fill: none; stroke: var(--it); stroke-width: 1.4; }
svg .dot { fill: var(--it); } svg .line.ours { stroke-width: 3; }
svg .lead { stroke-width: .6; stroke-dasharray: 2 2; } svg .ours { --it: var(--ours); }
.l0 { --it: #c0562b; } .l1 { --it: #2f9e63; } .l2 { --it: #a4508b; } .l3 { --it: #b08900; }
.l4 { --it: #5f7f8c; } .l5 { --it: #d0667a; } .l6 { --it: #7a6fd0; } .l7 { --it: #6b8e23; }
"""

_NARROW = """
@media (max-width: 46rem) {
  body { margin: 1rem auto; padding: 0 .9rem; } h1 { font-size: 1.35rem; }
  .panels { grid-template-columns: minmax(0, 1fr); }
  .panels > svg { grid-column: auto; grid-row: auto; }
  figure { overflow-x: auto; }
  figure > svg { min-width: 44rem; }
  nav ul { grid-template-columns: 1fr; gap: 0; } nav span { margin-bottom: .4rem; }
  svg text { font-size: 13px; } svg .title { font-size: 14px; }
}
"""

STYLE = _COLOURS + _PAGE + _CHARTS + _NARROW
# For a picture in a separate file.
FILE_STYLE = _COLOURS + _CHARTS + ".paper { fill: var(--paper); }\n"
