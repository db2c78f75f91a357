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

. "$(dirname "$0")/debian_packages.sh"

unpack_suite() {
  suite=$1
  home=$private/$suite
  open_suite "$suite" "$suite" || return 1
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
  close_suite "$suite"
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
