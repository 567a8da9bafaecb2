#!/usr/bin/env bash
# The servers that the tests of stores use where they are installed: Ceph (apt, as root), Azurite (npm).
set -euo pipefail
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	apt-get install -y --no-install-recommends radosgw ceph-mon ceph-osd ceph-common
else
	echo "Ceph needs root and apt: passed by"
fi
if command -v npm >/dev/null; then
	npm install --no-audit --no-fund --prefix .cache/azurite azurite@3.35.0
else
	echo "Azurite needs npm: passed by"
fi
