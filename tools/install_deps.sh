#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what a build of Hearth needs and does not find. Says what it does; does nothing, quickly,
# when all is there.
# usage: tools/install_deps.sh [--ci]     --ci: also what the checks of .ci/run need
set -euo pipefail

ci=no
[ "${1:-}" = --ci ] && ci=yes

missing=()
need_program() { command -v "$1" >/dev/null || missing+=("$2"); }
need_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }

need_program cc gcc
need_program cmake cmake
need_program ninja ninja-build
need_program pkg-config pkg-config
need_program python3 python3
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
need_library libpcre2-8 libpcre2-dev
need_library libutf8proc libutf8proc-dev
need_library jansson libjansson-dev
need_library cmocka libcmocka-dev
if [ $ci = yes ]; then
    need_program g++ g++
    need_program clang clang
    command -v clang-format-14 >/dev/null || need_program clang-format clang-format
    need_program aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing+=(libc6-dev-arm64-cross)
    need_program qemu-aarch64 qemu-user
    need_program git git
fi

if ! command -v apt-get >/dev/null && [ ${#missing[@]} -ne 0 ]; then
    echo "install_deps: these are missing (by their Debian names), and there is no apt-get to" \
        "install them with: ${missing[*]}" >&2
    [ $ci = no ] || exit 1
    exit 0 # the build may be one that does not need them, and says itself what it lacks
fi
as_root=()
if [ "$(id -u)" != 0 ] && [ ${#missing[@]} -ne 0 ]; then
    as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
    command -v sudo >/dev/null || {
        echo "install_deps: as root, run: apt-get install ${missing[*]}" >&2
        [ $ci = no ] || exit 1
        exit 0 # likewise
    }
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    echo "install_deps: installing $*" >&2
    "${as_root[@]}" apt-get install -y -q --no-install-recommends "$@" >&2 </dev/null
}
install_missing() {
    [ ${#missing[@]} -eq 0 ] && return
    # A fresh machine has no package lists yet, an old one may have stale ones.
    install "${missing[@]}" || { "${as_root[@]}" apt-get update -q >&2 && install "${missing[@]}"; }
}
install_missing || {
    echo "install_deps: these could not be installed: ${missing[*]}" >&2
    [ $ci = no ] || exit 1 # likewise
}

# clang-format's versions differ in what they write (tools/check_format): the 14th, where there is
# one, which the package lists say that are there by now.
if [ $ci = yes ] && ! command -v clang-format-14 >/dev/null &&
    apt-cache show clang-format-14 >/dev/null 2>&1; then
    missing=(clang-format-14)
    install_missing
fi
# The sanitizers' runtime is a package of its own, named after the version of the clang there is.
if [ $ci = yes ] && [ ! -e "$(clang -print-file-name=libclang_rt.asan-x86_64.a)" ]; then
    missing=("libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev")
    install_missing
fi
