#!/bin/sh
# The browser tests need a Chromium and one readable font. Install Debian's when they are missing
# and this user may; otherwise say in one line what to install.
set -eu
found() { for name in "$@"; do command -v "$name" >/dev/null 2>&1 && return 0; done; return 1; }
need=""
[ -n "${MXLAB_CHROMIUM:-}" ] || found chromium chromium-browser google-chrome || need="chromium"
[ -n "$(fc-list 2>/dev/null | head -n 1)" ] || need="$need fonts-dejavu-core fontconfig"
[ -n "$need" ] || exit 0
as_root=""
if [ "$(id -u)" != 0 ]; then
  as_root="sudo -n"
  sudo -n true 2>/dev/null || as_root="no"
fi
if ! found apt-get || [ "$as_root" = "no" ]; then
  echo "mxlab: the browser tests need:$need (or MXLAB_CHROMIUM=/path/to/a/chromium)" >&2
  exit 2
fi
echo "installing $need"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq $need >/dev/null
