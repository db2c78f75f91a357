#!/bin/sh
# The Debian packages that heapsnap needs, in one place, by purpose.
#
#   tools/packages.sh build test             prints the names, one a line
#   tools/packages.sh --install build test   installs those that are missing (root, or sudo)
#
# build: to compile the program and the library.   test: to run tests/run.sh as well.
# bench: to measure (preset bench).
set -eu

build_packages="g++ cmake ninja-build pkg-config libboost-program-options-dev libfmt-dev libelf-dev
  libdw-dev libdebuginfod-dev libcapstone-dev libzstd-dev liblzma-dev libpng-dev libxxhash-dev
  zlib1g-dev libbz2-dev libncurses-dev libcurl4-gnutls-dev libprotozero-dev libiberty-dev libtomlplusplus-dev python3"
# libc6-dbg: the symbols of this system's C library; the tests compare heapsnap with and without them.
# Ruby, PostgreSQL, nginx, MariaDB, node: real programs to attach to under load (wrk is one), and two that dump
# themselves through libheapsnap. jemalloc, gperftools, mimalloc and musl: other allocators. The shells complete command
# lines; mandoc reads the manual pages; lintian, systemd and setcap (libcap2-bin) are for the packages;
# podman builds the container image, on a base of busybox, and python3-kubernetes knows what manifests may say;
# rpm makes and installs the RPM, debootstrap roots of whole distributions.
# clickhouse-server, on a port of its own, takes the rows of many hosts; go tool pprof reads the profiles that export writes.
# promtool, of prometheus, checks what history writes for node_exporter.
# chromium opens the page that view writes, driven by a package of npm.
# heaptrack_print and valgrind's viewer of DHAT's files read what export writes.
# tmux is the terminal of heapsnap top.
# lldb, eu-stack and perf look at the processes that heapsnap has been in, as gdb does.
test_packages="doctest-dev libsimdjson-dev zstd clang clang-format clang-tidy lld libclang-rt-dev ccache gdb libc6-dbg
  debian-archive-keyring ruby postgresql postgresql-server-dev-15 nginx-light apache2 cron wrk mariadb-server memcached nodejs
  make zsh fish bindfs bash-completion mandoc lintian systemd libcap2-bin libunwind-dev libjemalloc-dev libgoogle-perftools-dev
  libmimalloc-dev musl-tools lldb elfutils linux-perf strace prometheus podman runc busybox-static python3-kubernetes
  rpm debootstrap tmux clickhouse-server golang-go openssl curl heaptrack valgrind chromium
  ruby-heapy libbson-1.0-0 python3-numpy ruby-rack puma python3-flask gunicorn"
# npm, which installs DuckDB's package; it may have come with another node than Debian's.
command -v npm >/dev/null || test_packages="$test_packages npm"
# Not in every release of Debian; the tests that need it are skipped where it is not.
optional_packages="clickhouse-server"
bench_packages="libbenchmark-dev heaptrack libjemalloc2 ruby"

install=no
if [ "${1:-}" = --install ]; then
  install=yes
  shift
fi
[ $# -gt 0 ] || { echo "usage: $0 [--install] build|test|bench..." >&2; exit 2; }
names=
for purpose in "$@"; do
  case $purpose in
    build) names="$names $build_packages" ;;
    test) names="$names $test_packages" ;;
    bench) names="$names $bench_packages" ;;
    *) echo "$0: no such purpose: $purpose (build, test, bench)" >&2; exit 2 ;;
  esac
done

if [ "$install" = no ]; then
  # shellcheck disable=SC2086
  printf '%s\n' $names
  exit 0
fi

missing=
for name in $names; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "$0: this system has no apt-get; install what corresponds to:$missing" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root="sudo -n"
elif command -v sudo >/dev/null && [ -t 0 ]; then
  as_root=sudo
else
  echo "$0: packages are missing, and this is neither root nor a user who may use sudo. As root, run:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get -q update
for name in $optional_packages; do
  case "$missing " in
    *" $name "*) ;;
    *) continue ;;
  esac
  candidate=$(apt-cache policy "$name" | sed -n 's/^ *Candidate: //p')
  if [ -z "$candidate" ] || [ "$candidate" = "(none)" ]; then
    echo "$0: skipped: apt has no $name here, and the tests that need it are skipped" >&2
    missing=$(echo "$missing " | sed "s/ $name / /")
  fi
done
[ -n "$(echo $missing)" ] || exit 0
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
