#!/bin/sh
# Unpacks the Ruby of another Debian suite into a folder, to chroot into.
#
#   ruby_roots.sh FOLDER VERSION...      for example: ruby_roots.sh build/ruby-roots 2.7 3.3
#
# Makes FOLDER/VERSION: ruby with all that it depends on, as the distributor ships it (stripped), and nothing of it
# set up. Prints one line a version. Exit code: 0 all there, 77 at least one could not be had (reason printed).
set -eu

if [ $# -lt 2 ]; then
  echo "usage: $0 FOLDER VERSION..." >&2
  exit 2
fi
mkdir -p "$1"
roots=$(cd "$1" && pwd)
shift
. "$(dirname "$0")/debian_packages.sh"

# What is in experimental may take the rest from sid.
suites_of() {
  case $1 in
    2.7) echo bullseye ;;
    3.1) echo bookworm ;;
    3.3) echo trixie ;;
    3.4) echo experimental sid ;;
    *) echo "$0: no suite is known that has Ruby $1" >&2; exit 2 ;;
  esac
}

unpack_ruby() {
  version=$1
  home=$private/ruby$version
  # shellcheck disable=SC2046
  open_suite "ruby$version" $(suites_of "$version") || return 1
  private_apt apt-get "ruby$version" --yes --no-install-recommends --download-only install "ruby$version" \
    >"$home/log" 2>&1 || return 1
  rm -rf "$roots/$version.new"
  mkdir -p "$roots/$version.new/tmp" "$roots/$version.new/usr/lib" "$roots/$version.new/dev"
  # Newer packages have everything below /usr, and older ones not.
  mkdir -p "$roots/$version.new/usr/lib64" "$roots/$version.new/usr/bin"
  for folder in lib lib64 bin; do ln -s "usr/$folder" "$roots/$version.new/$folder"; done
  for package in "$home"/cache/archives/*.deb; do
    case $package in */libc-bin_* | */perl* | */libperl*) continue ;; esac
    dpkg-deb --fsys-tarfile "$package" |
      tar -x -C "$roots/$version.new" --keep-directory-symlink --no-same-owner || return 1
  done
  rm -rf "$roots/$version"
  mv "$roots/$version.new" "$roots/$version"
  close_suite "ruby$version"
}

missing=0
for version in "$@"; do
  if [ -e "$roots/$version/usr/bin/ruby$version" ]; then
    echo "Ruby $version: kept"
  elif unpack_ruby "$version"; then
    echo "Ruby $version: $(chroot "$roots/$version" "ruby$version" --disable-gems --version)"
  else
    echo "Ruby $version: cannot be had: $(grep -E '^(E|W):' "$private/ruby$version/log" | head -n 1 || true)"
    missing=1
  fi
done
[ "$missing" = 0 ] || exit 77
