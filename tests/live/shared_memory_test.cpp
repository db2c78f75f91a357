// Memory that the target shares is shared with its copy too, which executes some of its code.
#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "platform/linux/freeze/frozen_process.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

namespace {

AddressRange range_in(const std::string& line) {
  uint64_t begin = 0;
  uint64_t end = 0;
  const char* const last = line.data() + line.size();
  const auto first = std::from_chars(line.data(), last, begin, 16);
  REQUIRE(first.ptr != last);
  REQUIRE(std::from_chars(first.ptr + 1, last, end, 16).ptr == last);
  return {Address(begin), Address(end)};
}

}  // namespace

TEST_CASE("a copy that runs the target's code writes to no memory that both share") {
  LiveTarget target({SHARED_WRITER});
  FreezeOptions options = choose(FreezeChoice::kFork);
  options.malloc_text = {range_in(target.read_line())};
  for (int i = 0; i < scaled(3, 200); ++i) {
    const auto frozen = std::make_unique<FrozenProcess>(target.pid(), options);
    REQUIRE(frozen->record().method == FreezeMethod::kFork);
    CHECK(frozen->record().threads_in_malloc == 1);
    CHECK(frozen->record().steps > 0);
    const auto& mappings = frozen->address_space().mappings();
    CHECK(std::any_of(mappings.begin(), mappings.end(),
                      [](const Mapping& mapping) { return mapping.shared && mapping.writable; }));
    frozen->thaw();
  }
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  CHECK(seen.at("rounds") > 0);
  CHECK(seen.at("errors") == 0);
}

}  // namespace heapsnap::live
