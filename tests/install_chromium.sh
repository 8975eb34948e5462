#!/bin/sh
# Installs Debian's chromium for the tests of the page, where that takes no password. Never fails: without it they are
# skipped.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
command -v apt-get >/dev/null || exit 0
if [ "$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo -n"; else exit 0; fi

install() { DEBIAN_FRONTEND=noninteractive timeout 240 $as apt-get install --yes --no-install-recommends chromium >/dev/null 2>&1; }

echo "installing chromium for the tests of the page ..."
install || { timeout 120 $as apt-get update >/dev/null 2>&1 && install; } || echo "chromium could not be installed"
exit 0
