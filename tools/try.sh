#!/bin/bash
# Try heapsnap: builds it, takes a snapshot of a running process, and shows what can be read from it.
#
#   tools/try.sh           of a small server with a leaky memory, which is started and ended here
#   tools/try.sh PID       of the process PID, which goes on afterwards
#
# Installs the packages that are missing (root, or sudo). Results go to build/try/, one folder a run.
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") pid= ;;
  *[!0-9]*) echo "usage: $0 [PID]" >&2; exit 2 ;;
  *) pid=$1; [ -d "/proc/$pid" ] || { echo "$0: there is no process $pid" >&2; exit 3; } ;;
esac

demo=
mkdir -p build
show() {
  echo "+ $*"
  "$@"
}
quietly() {
  "$@" >build/try.log 2>&1 || { tail -n 40 build/try.log >&2; echo "$0: failed: $*" >&2; exit 1; }
}

echo "building (build/release)..."
quietly tools/packages.sh --install build
launcher=()
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # what it holds serves every clone
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
quietly cmake --preset release "${launcher[@]}"
quietly cmake --build --preset release -j "$(nproc)" --target heapsnap leaky_server
heapsnap=build/release/tools/heapsnap/heapsnap

if [ -z "$pid" ]; then
  # The server ends when its standard input does: also when this script dies of anything.
  coproc SERVER { exec build/release/tools/demo/leaky_server; }
  pid=$SERVER_PID
  demo=$pid
  read -r sign _ <&"${SERVER[0]}" || sign=
  [ "$sign" = ready ] || { echo "$0: the server did not start" >&2; exit 1; }
  echo "the demo server runs as PID $pid"
fi

results=build/try/$(date +%Y%m%d-%H%M%S)-$pid
mkdir -p "$results"
show "$heapsnap" attach "$pid" -o "$results/a.hsnap"
echo
show "$heapsnap" report "$results/a.hsnap"
echo
show "$heapsnap" render "$results/a.hsnap" -o "$results/a.png"
show "$heapsnap" render "$results/a.hsnap" -o "$results/sizes.svg" --color-by size
show "$heapsnap" export "$results/a.hsnap" --format ndjson -o "$results/a.ndjson"
show "$heapsnap" export "$results/a.hsnap" --format ptmallocdump -o "$results/a.ptmallocdump"

if [ -n "$demo" ]; then
  exec {SERVER[1]}>&-
  wait "$pid"
  echo "the demo server has ended"
fi
echo "results:"
ls -l "$results"
