// Memory that the target shares is shared with its copy too, which executes some of its code.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "base/page.h"
#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/proc/page_map.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
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

TEST_CASE("of shared memory that is hardly used, the rest is passed over at once") {
  constexpr size_t kSize = size_t{1} << 30;
  constexpr uint64_t kUsedPage = 100'000;
  void* const shared = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  const Address begin(reinterpret_cast<uint64_t>(shared));
  const Address used = begin + kUsedPage * kPage;
  std::array<int, 2> ready{};
  std::array<int, 2> end{};
  REQUIRE(::pipe(ready.data()) == 0);
  REQUIRE(::pipe(end.data()) == 0);
  const pid_t child = run_in_child([&] {
    auto* const bytes = static_cast<volatile char*>(shared);
    bytes[0] = 1;
    bytes[kUsedPage * kPage] = 1;
    char byte = 0;
    ::close(end[1]);
    return ::write(ready[1], "", 1) == 1 && ::read(end[0], &byte, 1) == 0 ? 0 : 1;
  });
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const AddressRange rest{begin + kPage, begin + kSize};
  for (const FreezeChoice choice : {FreezeChoice::kFork, FreezeChoice::kStop}) {
    const auto frozen = std::make_unique<FrozenProcess>(child, choose(choice));
    PageMap of_child(ProcFs(), child);
    const Address first = of_child.absent_until(rest);
    if (first == rest.begin) MESSAGE("skipped: no PAGEMAP_SCAN (before Linux 6.7)");
    CHECK(frozen->residency().absent_until(rest) == first);
    CHECK((first == rest.begin || first == used));
  }
  ::close(end[1]);
  CHECK(status_of(child) == 0);
  for (const int each : {ready[0], ready[1], end[0]}) ::close(each);
  ::munmap(shared, kSize);
}

}  // namespace heapsnap::live
