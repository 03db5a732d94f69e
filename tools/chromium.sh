#!/usr/bin/env bash
# Installs Chromium, which the tests of the pages of `ui` need, where it is missing.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done
fail() { echo "browser: $1" >&2; exit 1; }
command -v apt-get >/dev/null || fail "Chromium is missing; install it so that 'chromium' is on PATH"
[ "$(id -u)" = 0 ] || fail "Chromium is missing; install it: sudo apt-get install chromium"
echo "browser: installing Chromium (Debian's package)"
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null ||
  fail "Chromium could not be installed; is a Debian mirror reachable?"
