#!/bin/sh
# Unpacks the C library of another Debian suite into a folder, so that a program can be run on it.
#
#   glibc_roots.sh FOLDER SUITE...      for example: glibc_roots.sh build/glibc-roots bullseye trixie
#
# Makes FOLDER/SUITE, a root to chroot into or to take ld.so from: libc6 as the distributor ships it
# (stripped, no debug information) and nothing else. For a suite older than this system FOLDER/SUITE-dev
# is made too: libc6-dev, what the linker needs to make a program that runs on that suite.
#
# The packages come through apt from the mirror that this system already uses, with lists and cache of
# their own below FOLDER; nothing is installed and the system's apt is not touched.
# Prints one line a suite. Exit code: 0 all there, 77 at least one could not be had (reason printed).
set -eu

if [ $# -lt 2 ]; then
  echo "usage: $0 FOLDER SUITE..." >&2
  exit 2
fi
mkdir -p "$1"
roots=$(cd "$1" && pwd)
shift

for tool in apt-get apt-cache dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "no suite: this system has no $tool"; exit 77; }
done

# The mirror of this system's own suite, from the one-line or the deb822 form of sources.list.
system_codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
system_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}//p' |
    awk -v suite="$system_codename" '$2 == suite { print $1; exit }'
  awk -v suite="$system_codename" '
    function flush(  n, names, i) {
      n = split(suites, names, " ")
      for (i = 1; i <= n; i++) if (names[i] == suite && uris != "") { split(uris, first, " "); print first[1]; exit }
      uris = suites = ""
    }
    /^[[:space:]]*$/ { flush(); next }
    tolower($1) == "uris:" { uris = substr($0, index($0, ":") + 1) }
    tolower($1) == "suites:" { suites = substr($0, index($0, ":") + 1) }
    END { flush() }' $(ls /etc/apt/sources.list.d/*.sources 2>/dev/null) /dev/null
}
mirror=$(system_mirror | head -n 1)
[ -n "$mirror" ] || { echo "no suite: apt's sources name no mirror for '$system_codename'"; exit 77; }
# The archive removes the old suites from its mirrors in the end, and then their expiry date has
# passed; signatures are checked all the same.
keyring=
for candidate in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
  [ -e "$candidate" ] && { keyring=$candidate; break; }
done
[ -n "$keyring" ] || { echo "no suite: the package debian-archive-keyring is not installed"; exit 77; }

private=$roots/.apt
private_apt() {
  command=$1
  suite=$2
  shift 2
  home=$private/$suite
  "$command" -q -o Dir::Etc::sourcelist="$home/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Dir::State="$home/state" -o Dir::State::status="$home/state/status" -o Dir::Cache="$home/cache" \
    -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o Acquire::Retries=2 \
    -o APT::Sandbox::User= "$@"
}

# fetch SUITE PACKAGE FOLDER: the files of PACKAGE of SUITE below FOLDER.
fetch() {
  (
    mkdir -p "$private/$1/deb"
    cd "$private/$1/deb"
    rm -f "$2"_*.deb
    private_apt apt-get "$1" download "$2" >"$private/$1/log" 2>&1 || exit 1
    dpkg-deb -x "$2"_*.deb "$3"
    rm -f "$2"_*.deb
  )
}

unpack_suite() {
  suite=$1
  home=$private/$suite
  mkdir -p "$home/state/lists/partial" "$home/cache/archives/partial"
  : >"$home/state/status"
  echo "deb [signed-by=$keyring] $mirror $suite main" >"$home/sources.list"
  private_apt apt-get "$suite" update >"$home/log" 2>&1 || return 1
  # apt-get update succeeds with a warning when the mirror has no such suite.
  private_apt apt-cache "$suite" show libc6 >/dev/null 2>>"$home/log" || return 1
  version=$(private_apt apt-cache "$suite" show libc6 | sed -n 's/^Version: //p' | head -n 1)
  rm -rf "$roots/$suite.new" "$roots/$suite-dev"
  mkdir -p "$roots/$suite.new/tmp"
  fetch "$suite" libc6 "$roots/$suite.new" || return 1
  # Newer suites ship everything below /usr and leave the links to another package.
  for folder in lib lib64; do
    if [ ! -e "$roots/$suite.new/$folder" ]; then ln -s "usr/$folder" "$roots/$suite.new/$folder"; fi
  done
  own=$(dpkg-query -W -f '${Version}' libc6 2>/dev/null || echo 0)
  if dpkg --compare-versions "$version" lt "$own"; then
    fetch "$suite" libc6-dev "$roots/$suite-dev" || return 1
  fi
  echo "$version" >"$roots/$suite.new/glibc-version"
  rm -rf "$roots/$suite"
  mv "$roots/$suite.new" "$roots/$suite"
  rm -rf "$home/state" "$home/cache"  # 60 MB of lists that are not needed again
}

missing=0
for suite in "$@"; do
  if [ -e "$roots/$suite/glibc-version" ]; then
    echo "$suite: libc6 $(cat "$roots/$suite/glibc-version") (kept)"
  elif unpack_suite "$suite"; then
    echo "$suite: libc6 $(cat "$roots/$suite/glibc-version")"
  else
    echo "$suite: cannot be had: $(grep -E '^(E|W):' "$private/$suite/log" | head -n 1 || true)"
    missing=1
  fi
done
[ "$missing" = 0 ] || exit 77
