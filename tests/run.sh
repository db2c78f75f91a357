#!/bin/bash
# Builds and tests everything, from a bare Debian 12 on: installs the packages that are missing (as
# root, or by sudo), builds with g++, clang++ and sanitizers, runs all tests and checks.
#
#   tests/run.sh            all of it
#   tests/run.sh --quick    g++ build and its tests only
#   HEAPSNAP_LONG=1         the long forms too: more C libraries and seeds, fuzzing
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
logs=build/logs
passed=0 failed=0 skipped=0
mkdir -p "$logs"
# What ccache holds serves every clone, wherever it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

finish() {
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

# check NAME COMMAND...: one check, its output in a log, shown when it fails.
check() {
  local name=$1 log=$logs/$1.log start=$SECONDS
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "passed: $name ($((SECONDS - start)) s)"
    return 0
  fi
  failed=$((failed + 1))
  echo "FAILED: $name ($((SECONDS - start)) s); the end of $log:"
  tail -n 60 "$log"
  return 1
}

# configure_and_build PRESET [TARGET]
configure_and_build() {
  local preset=$1 launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset "$preset" "${launcher[@]}" && cmake --build --preset "$preset" -j "$jobs" --target "${2:-all}"
}

# ctests PRESET [CTEST OPTION...]: every test counts; those that failed or were skipped are named.
ctests() {
  local preset=$1 start=$SECONDS
  local results=$PWD/$logs/$preset-tests.xml log=$logs/$preset-tests.log
  shift
  rm -f "$results"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" --timeout 600 \
    --output-junit "$results" "$@" >"$log" 2>&1
  local code=$? counts
  counts=$(python3 tests/count_results.py "$results") || counts="0 1 0"
  read -r now_passed now_failed now_skipped <<<"$(tail -n 1 <<<"$counts")"
  # ctest may fail for a reason that no test shows.
  if [ $code != 0 ] && [ "$now_failed" = 0 ]; then now_failed=1; fi
  [ "$now_failed" = 0 ] || grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed|^ +Start ' "$log" | tail -n 200
  sed '$d' <<<"$counts"
  passed=$((passed + now_passed)) failed=$((failed + now_failed)) skipped=$((skipped + now_skipped))
  echo "$preset tests: $now_passed passed, $now_failed failed, $now_skipped skipped ($((SECONDS - start)) s)"
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

# The preset's unity files are checked, and through them the files that they include. The findings come
# last, where they are seen.
tidy_check() {
  run-clang-tidy -quiet -j "$jobs" -p build/clang "^$PWD/(build/clang/)?(lib|platform|tools)/" >"$logs/clang-tidy-all.log" 2>&1
  local code=$?
  grep -vE '^clang-tidy|warnings? generated\.$' "$logs/clang-tidy-all.log"
  return $code
}

if ! tools/packages.sh --install build test >"$logs/packages.log" 2>&1; then
  tail -n 20 "$logs/packages.log"
  failed=1
  finish
fi
rm -f build/*/glibc-roots/*.missing

not_long=(-LE long)
[ "$long" != 1 ] || not_long=()
if check build-dev configure_and_build dev; then ctests dev "${not_long[@]}"; fi
[ "$quick" = no ] || finish

if check build-clang configure_and_build clang; then
  ctests clang -R '^unit\.'
  check clang-tidy tidy_check
fi
if check build-asan configure_and_build asan sanitized_tests; then ctests asan -R '^(unit|fuzz)\.'; fi
check try tools/try.sh  # the release build and the main job, as README.md begins with them
check clang-format format_check
if [ "$long" = 1 ]; then
  check fuzzers tests/fuzz/run.sh 60
fi
finish
