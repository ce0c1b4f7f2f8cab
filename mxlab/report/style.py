"""The style sheet of the HTML report: light and dark, on a phone and on paper."""

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1f24; --dim: #565d68; --line: #c9ced6;
  --soft: #f3f5f8; --stops: #a3161a; --silent: #8a3ea8; --degraded: #855000; --runs: #1b6b33;
  --unknown: #4a5568; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --text: #e6e9ee; --dim: #a6aebb;
  --line: #3a414c; --soft: #1d2129; --stops: #ff8f8a; --silent: #dba6f2; --degraded: #f0b429;
  --runs: #7dd394; --unknown: #b3bdca; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; }
article + article { border-top: 2px solid var(--line); margin-top: 2rem; }
code, pre, td.n, th.n { font-family: ui-monospace, monospace; font-size: .9em; }
pre { white-space: pre-wrap; background: var(--soft); padding: .75rem; margin: .5rem 0; }
.answer { border-left: .4rem solid var(--unknown); background: var(--soft); padding: .5rem 1rem; }
.answer p { margin: .25rem 0; } .answer p:first-child { font-size: 1.15rem; font-weight: 600; }
.answer.stops { border-color: var(--stops); } .answer.runs { border-color: var(--runs); }
.answer.runs-degraded { border-color: var(--degraded); }
.wide { overflow-x: auto; } .wide:focus-visible { outline: 2px solid currentColor; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
caption { text-align: left; color: var(--dim); padding: .25rem 0; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left;
  vertical-align: top; }
thead th { background: var(--soft); } td.n, th.n { text-align: right; white-space: nowrap; }
th, td { overflow-wrap: break-word; } td.word, th.word { white-space: nowrap; }
td.long, th.long { min-width: 14rem; }
.stops { color: var(--stops); } .silent { color: var(--silent); }
.falls-back, .warns, .runs-degraded { color: var(--degraded); }
.runs, .passes { color: var(--runs); } .unknown, .invalid, .not-reached { color: var(--unknown); }
.answer { color: var(--text); } td.stops, td.silent { font-weight: 600; }
footer { margin-top: 2rem; border-top: 1px solid var(--line); color: var(--dim); }
@media (max-width: 40rem) { body { padding: .75rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .wide { overflow: visible; }
  tr, .answer { break-inside: avoid; } thead { display: table-header-group; } }
"""
