#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fills a folder with the arm64 packages that a cross build needs, unpacked and not installed (the
# -dev packages of two architectures do not all install beside each other). Uses the machine's
# package sources with package lists of its own, changes nothing outside the folder, and needs no
# root. Debian; on Ubuntu the arm64 packages are in other sources, which must be added first.
# usage: tools/arm_sysroot.sh FOLDER
set -euo pipefail

folder=$(realpath -m "${1:?usage: tools/arm_sysroot.sh FOLDER}")
packages=(libpcre2-dev libpcre2-8-0 libutf8proc-dev libjansson-dev libjansson4 libcmocka-dev
    libcmocka0)
[ -e "$folder/.complete" ] && exit 0

state=$folder/apt
mkdir -p "$state/state/lists/partial" "$state/cache/archives/partial" "$folder/packages"
apt=(-q -o "Dir::State=$state/state" -o Dir::State::status=/var/lib/dpkg/status
    -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=
    -o "APT::Architectures::=$(dpkg --print-architecture)" -o APT::Architectures::=arm64)
apt-get "${apt[@]}" update >&2

wanted=()
for name in "${packages[@]}"; do wanted+=("$name:arm64"); done
# utf8proc's library package carries its version in its name.
utf8proc=$(apt-cache "${apt[@]}" depends libutf8proc-dev:arm64 |
    sed -n 's/.*Depends: \(libutf8proc[0-9.]*\).*/\1/p' | head -1)
wanted+=("$utf8proc:arm64")
(cd "$folder/packages" && apt-get "${apt[@]}" download "${wanted[@]}" >&2)
for deb in "$folder"/packages/*.deb; do dpkg -x "$deb" "$folder"; done
rm -r "$folder/packages" "$state"
touch "$folder/.complete"
