#!/bin/bash
# Builds and tests everything, from a bare Debian 12 on: installs the packages that are missing (as
# root, or by sudo), builds with g++, and with clang++ and sanitizers, runs all tests and checks.
#
#   tests/run.sh            all of it
#   tests/run.sh --quick    g++ build and its tests only
#   HEAPSNAP_LONG=1         the long forms too: more C libraries and seeds, fuzzing, each file compiled alone
#
# Every test and every check counts one. The last line is "N passed, N failed[, N skipped]"; the exit
# code is 0 when nothing failed. Logs are in build/logs/.
set -u
cd "$(dirname "$0")/.." || exit 1

quick=no
case "${1:-}" in
  "") ;;
  --quick) quick=yes ;;
  *) echo "usage: $0 [--quick]" >&2; exit 2 ;;
esac
long=${HEAPSNAP_LONG:-0}
jobs=$(nproc)
test_jobs=$((jobs + 1))  # tests wait for a quarter of their time
logs=build/logs
passed=0 failed=0 skipped=0
mkdir -p "$logs"
# What ccache holds serves every clone, wherever it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Sets `cpu` to the seconds that all ended children took. (A subshell would see its own only.)
cpu=0
look_at_cpu() {
  times >"$logs/times"
  cpu=$(awk -F'[ms ]' 'END { print int(60 * ($1 + $4) + $2 + $5) }' "$logs/times")
}

finish() {
  look_at_cpu
  echo "$SECONDS s, $cpu s of CPU"
  line="$passed passed, $failed failed"
  [ "$skipped" = 0 ] || line="$line, $skipped skipped"
  echo "$line"
  [ "$failed" = 0 ] && [ "$passed" != 0 ]
  exit $?
}
# An end that was not foreseen is a failure, also in the count.
interrupted() {
  failed=$((failed + 1))
  echo "tests/run.sh was interrupted"
  finish
}
trap interrupted INT TERM HUP

# took START CPU_START: sets `cost` to the time since then, in words.
took() {
  look_at_cpu
  cost="$((SECONDS - $1)) s, $((cpu - $2)) s of CPU"
}

# check NAME COMMAND...: one check, its output in a log, shown when it fails.
check() {
  local name=$1 log=$logs/$1.log start=$SECONDS cpu_start=$cpu
  shift
  "$@" >"$log" 2>&1
  local code=$?
  took "$start" "$cpu_start"
  if [ $code = 0 ]; then
    passed=$((passed + 1))
    echo "passed: $name ($cost)"
    return 0
  fi
  failed=$((failed + 1))
  echo "FAILED: $name ($cost); the end of $log:"
  tail -n 60 "$log"
  return 1
}

# configure_and_build PRESET [CMAKE OPTION...]
configure_and_build() {
  local preset=$1 launcher=()
  shift
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset "$preset" "${launcher[@]}" "$@" && cmake --build --preset "$preset" -j "$jobs"
}

# ctests PRESET [CTEST OPTION...]: every test counts; those that failed or were skipped are named.
ctests() {
  local preset=$1 start=$SECONDS cpu_start=$cpu
  local results=$PWD/$logs/$preset-tests.xml log=$logs/$preset-tests.log
  shift
  rm -f "$results"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$test_jobs" --timeout 600 \
    --output-junit "$results" "$@" >"$log" 2>&1
  local code=$? counts
  counts=$(python3 tests/count_results.py "$results") || counts="0 1 0"
  read -r now_passed now_failed now_skipped <<<"$(tail -n 1 <<<"$counts")"
  # ctest may fail for a reason that no test shows.
  if [ $code != 0 ] && [ "$now_failed" = 0 ]; then now_failed=1; fi
  [ "$now_failed" = 0 ] || grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed|^ +Start ' "$log" | tail -n 200
  sed '$d' <<<"$counts"
  passed=$((passed + now_passed)) failed=$((failed + now_failed)) skipped=$((skipped + now_skipped))
  took "$start" "$cpu_start"
  echo "$preset tests: $now_passed passed, $now_failed failed, $now_skipped skipped ($cost)"
}

sources() {
  find lib platform tools tests packaging \( -name '*.h' -o -name '*.c' -o -name '*.cpp' \) -print
}

format_check() {
  sources | xargs clang-format --dry-run -Werror || return 1
  # It leaves comments as they are.
  sources | xargs awk 'length > 100 && /^ *\/\// { print FILENAME ":" FNR ": a comment of more than 100 columns"; found = 1 }
    END { exit found }'
}

if ! tools/packages.sh --install build test >"$logs/packages.log" 2>&1; then
  tail -n 20 "$logs/packages.log"
  failed=1
  finish
fi
grep 'skipped: ' "$logs/packages.log"
rm -f build/*/glibc-roots/*.missing

not_long=(-LE long)
tidy=(tests/tidy.py build/clang)
if [ "$long" = 1 ]; then
  not_long=()
  tidy+=(--all)
  check build-dev configure_and_build dev  # each file by itself: its includes are complete
fi
if check build-check configure_and_build check; then ctests check "${not_long[@]}"; fi
[ "$quick" = no ] || finish

if check build-clang configure_and_build clang; then
  ctests clang -R '^(unit|fuzz)\.'
  check clang-tidy "${tidy[@]}"
fi
check try tools/try.sh  # the release build and the main job, as README.md begins with them
check clang-format format_check
if [ "$long" = 1 ]; then
  check build-clang-live configure_and_build clang -DHEAPSNAP_LIVE_TESTS=ON
  check fuzzers tests/fuzz/run.sh 60
fi
finish
