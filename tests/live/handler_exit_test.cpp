// A signal handler that has interrupted the allocator: the copy shows the allocator's call
// completed, and runs nothing of the handler.
#include <doctest/doctest.h>

#include <charconv>
#include <string>

#include "platform/linux/freeze/frozen_process.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

namespace {

Address address_in(const std::string& line, size_t at) {
  uint64_t address = 0;
  std::from_chars(line.data() + at, line.data() + line.size(), address, 16);
  return Address(address);
}

}  // namespace

TEST_CASE("a call that a handler has interrupted is led to its end, whatever the handler calls") {
  LiveTarget target({HANDLER_CALLER});
  const std::string line = target.read_line();
  const AddressRange code{address_in(line, 0), address_in(line, line.find(' ') + 1)};
  FreezeOptions options = choose(FreezeChoice::kFork);
  options.malloc_text = {code};
  // The moment is chance: most are in a system call of the handler's.
  constexpr int kMostAttempts = 3000;
  const int wanted = scaled(5, 100);
  int inside = 0;
  for (int i = 0; inside < wanted && i < kMostAttempts; ++i) {
    const auto frozen = std::make_unique<FrozenProcess>(target.pid(), options);
    REQUIRE(frozen->record().method == FreezeMethod::kFork);
    // A thread in a system call is looked at in another way.
    if (frozen->record().threads_in_malloc == 0) continue;
    ++inside;
    REQUIRE(frozen->threads().front().registers.has_value());
    CHECK_FALSE(code.contains(frozen->threads().front().registers->instruction_pointer));
    frozen->thaw();
    CHECK(notes_of(frozen->record()) == "");
  }
  CHECK(inside == wanted);
  CHECK(target.finish().at("calls") > 0);
  CHECK(target.exit_status() == 0);
}

}  // namespace heapsnap::live
