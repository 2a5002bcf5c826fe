#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Both libraries' names are hearth_* and nothing else, and all that the public header declares; they
# have no named writable data. (Tables of pointers lie in .data.rel.ro, which the loader makes
# read-only.) And their objects call nothing that takes memory unseen, prints, or ends the program.
# usage: tools/check_symbols.sh BUILD
set -euo pipefail

build=${1:?usage: tools/check_symbols.sh BUILD}
root=$(dirname "$0")/..
bad=0

exported=$(nm -D --defined-only "$build/libhearth.so" | awk '{ print $NF }' | sort)
others=$(grep -v '^hearth_' <<<"$exported" || true)
if [ -n "$others" ]; then
    echo "check_symbols: libhearth.so exports more than hearth_*:" $others >&2
    bad=1
fi
declared=$("${CC:-cc}" -E -P -I"$root/include" "$root/include/hearth/hearth.h" | tr '\n' ' ' |
    grep -o '\bhearth_[a-z0-9_]* *(' | tr -d ' (' | grep -v '_fn$' | sort -u)
differ=$(comm -3 --output-delimiter='exported, not declared: ' <(echo "$declared") \
    <(echo "$exported") | sed '/^exported/!s/^/declared, not exported: /')
if [ -n "$differ" ]; then
    sed 's/^/check_symbols: /' <<<"$differ" >&2
    bad=1
fi

differ=$(nm --defined-only -g "$build/libhearth.a" | awk 'NF == 3 { print $NF }' | sort |
    comm -3 - <(echo "$exported") || true)
if [ -n "$differ" ]; then
    echo "check_symbols: libhearth.a and libhearth.so differ:" $differ >&2
    bad=1
fi

mapfile -t rooms < <(find "$build/src" -name 'libht_*.a' | sort)
strange=$(nm -A --defined-only -g "${rooms[@]}" | awk 'NF > 1 && $NF !~ /^(ht|hearth)_/')
if [ -n "$strange" ]; then
    sed 's/^/check_symbols: a name without ht_ or hearth_ in front: /' <<<"$strange" >&2
    bad=1
fi

# objdump -t: address, 7 columns of flags, section, size, name
writable=$(objdump -t "$build/libhearth.a" | awk '
    / file format / { file = $1 }
    { sub(/ \.(hidden|internal|protected) /, " ") }
    NF < 5 { next }
    { section = $(NF - 2); size = $(NF - 1) }
    section ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && section !~ /^\.data\.rel\.ro/ &&
        size !~ /^0*$/ { print file, section, $NF }')
if [ -n "$writable" ]; then
    sed 's/^/check_symbols: writable data: /' <<<"$writable" >&2
    bad=1
fi
# As the linker sees it, so that nothing hides in a macro.
called=$(nm -A -u "${rooms[@]}" | sed 's/^.*:\([^:]*\.o\): *U /\1 /' | awk '
    BEGIN {
        n = split("malloc calloc realloc free strdup strndup asprintf posix_memalign qsort " \
            "fopen fdopen getline opendir", a, " ")
        for (i = 1; i <= n; i++) memory[a[i]] = 1
        n = split("printf vprintf puts putchar perror exit _exit abort __assert_fail getenv " \
            "secure_getenv stdout stderr stdin __printf_chk __fprintf_chk __vprintf_chk", a, " ")
        for (i = 1; i <= n; i++) never[a[i]] = 1
    }
    ($2 in memory && $1 != "mem.c.o") || $2 in never')
if [ -n "$called" ]; then
    sed 's/^/check_symbols: not for library code: /' <<<"$called" >&2
    bad=1
fi
[ $bad = 0 ] && echo "check_symbols: ok"
exit $bad
