#!/bin/sh
# Fuzzes each target for a while, one after another: tests/fuzz/run.sh SECONDS [NAME...]
#
# Begins with corpus/NAME/; new inputs go to build/fuzz/corpus/NAME/, so that the next run goes on from
# there. What breaks a target is left in build/fuzz/found/NAME-*; a file from there belongs into
# corpus/NAME/ together with the fix. Exit code 1 when anything was found.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# = 0 ] || shift
launcher=
if command -v ccache >/dev/null; then
  launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
fi
# shellcheck disable=SC2086
cmake --preset fuzz $launcher >/dev/null
names=${*:-$(cd tests/fuzz && ls -- *_fuzz.cpp | sed 's/_fuzz\.cpp$//')}
# shellcheck disable=SC2046
cmake --build --preset fuzz --target $(printf '%s_fuzz ' $names)

mkdir -p build/fuzz/found
code=0
for name in $names; do
  grown=build/fuzz/corpus/$name
  mkdir -p "$grown"
  echo "== $name: $seconds s"
  # -rss_limit_mb: nothing here may take memory by a length that an input names.
  build/fuzz/tests/fuzz/"$name"_fuzz -max_total_time="$seconds" -rss_limit_mb=1024 -malloc_limit_mb=256 \
    -timeout=10 -print_final_stats=1 -artifact_prefix=build/fuzz/found/"$name"- \
    "$grown" tests/fuzz/corpus/"$name" 2>build/fuzz/"$name".log || {
    code=1
    echo "FOUND in $name:"
    tail -n 60 build/fuzz/"$name".log
  }
  grep -E '^stat::number_of_executed_units|^stat::peak_rss_mb' build/fuzz/"$name".log || true
done
exit $code
