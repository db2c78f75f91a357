// Page states of this process, of memory that is laid out for it; and their sum for a copy.
#include "platform/linux/proc/page_map.h"

#include <doctest/doctest.h>
#include <linux/fs.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "platform/linux/freeze/copied_page_map.h"
#include "platform/linux/freeze/copied_usage.h"
#include "platform/linux/freeze/running_process.h"

using namespace heapsnap;

namespace {

const uint64_t kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

// Private anonymous memory without huge pages, of which the pages in `touched` are in memory.
class SparseMemory {
 public:
  SparseMemory(size_t pages, const std::vector<size_t>& touched) : size_(pages * kPage) {
    void* const mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    bytes_ = static_cast<volatile std::byte*>(mapped);
    ::madvise(mapped, size_, MADV_NOHUGEPAGE);
    for (const size_t i : touched) bytes_[i * kPage] = std::byte{1};
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() { ::munmap(const_cast<std::byte*>(bytes_), size_); }

  Address begin() const { return Address(reinterpret_cast<uint64_t>(bytes_)); }
  AddressRange range() const { return {begin(), begin() + size_}; }
  // Maps the page of zeros that all share.
  std::byte look_at(size_t i) const { return bytes_[i * kPage]; }

 private:
  uint64_t size_;
  volatile std::byte* bytes_ = nullptr;
};

PageMap own_page_map() {
  return {ProcFs(), ::getpid()};
}

}  // namespace

TEST_CASE("a page's 64 bits tell its state") {
  CHECK(page_state_of_entry(uint64_t{1} << 63) == PageState::kResident);
  constexpr uint64_t kSwapped = uint64_t{1} << 62;
  CHECK(page_state_of_entry(kSwapped) == PageState::kSwapped);
  // In the fourth file, at its page 1000.
  CHECK(page_state_of_entry(kSwapped | 1000 << 5 | 3) == PageState::kSwapped);
  // On its way to another place in memory, of which there may be no swap at all; and a marker.
  CHECK(page_state_of_entry(kSwapped | 1000 << 5 | 29) == PageState::kResident);
  CHECK(page_state_of_entry(kSwapped | uint64_t{1} << 61 | 29) == PageState::kResidentFile);
  CHECK(page_state_of_entry(kSwapped | 31) == PageState::kAbsent);
  CHECK(page_state_of_entry(0) == PageState::kAbsent);
}

TEST_CASE("pages that were written to are in memory, others not") {
  const SparseMemory memory(16, {0, 3, 4, 15});
  PageMap pages = own_page_map();
  std::vector<PageState> states(16);
  for (const bool anonymous : {false, true}) {
    anonymous ? pages.read_anonymous(memory.begin(), states) : pages.read(memory.begin(), states);
    for (size_t i = 0; i < states.size(); ++i) {
      CAPTURE(i);
      const bool touched = i == 0 || i == 3 || i == 4 || i == 15;
      CHECK(states[i] == (touched ? PageState::kResident : PageState::kAbsent));
    }
  }
}

TEST_CASE("what is in memory is counted, within the range asked for") {
  const SparseMemory memory(600, {0, 3, 4, 599});
  PageMap pages = own_page_map();
  for (const auto kind : {PageMap::Pages::kAny, PageMap::Pages::kAnonymous}) {
    const auto all = pages.count(memory.range(), kind);
    if (!all) {
      MESSAGE("this kernel has no PAGEMAP_SCAN");
      return;
    }
    CHECK(all->resident == 4 * kPage);
    CHECK(all->huge == 0);
    CHECK(all->swapped == 0);
    CHECK(pages.count({memory.begin() + kPage, memory.begin() + 4 * kPage}, kind)->resident ==
          kPage);
    CHECK(pages.count({memory.begin() + 5 * kPage, memory.begin() + 599 * kPage}, kind)->resident ==
          0);
  }
  CHECK(memory.look_at(7) == std::byte{0});
  CHECK(pages.count(memory.range(), PageMap::Pages::kAny)->resident == 4 * kPage);
}

TEST_CASE("up to where nothing is in memory is told at once, by a copy too") {
  constexpr size_t kPages = size_t{1} << 30;  // 4 TiB
  const SparseMemory memory(kPages, {3, kPages / 2});
  PageMap pages = own_page_map();
  const ProcFs proc;
  const AddressSpace space(proc.maps(::getpid()));
  const MissingMemory nothing;
  CopiedPageMap copied(proc, ::getpid(), ::getpid(), space, nothing);
  const auto page = [&](size_t i) { return memory.begin() + i * kPage; };
  for (PageResidency* const residency : std::initializer_list<PageResidency*>{&pages, &copied}) {
    if (!pages.count(memory.range(), PageMap::Pages::kAny)) {
      MESSAGE("this kernel has no PAGEMAP_SCAN");
      CHECK(residency->absent_until(memory.range()) == page(0));
      continue;
    }
    CHECK(residency->absent_until({page(0), page(3)}) == page(3));
    CHECK(residency->absent_until({page(0), page(kPages)}) == page(3));
    CHECK(residency->absent_until({page(3), page(kPages)}) == page(3));
    CHECK(residency->absent_until({page(4), page(kPages)}) == page(kPages / 2));
    CHECK(residency->absent_until({page(kPages / 2 + 1), page(kPages)}) == page(kPages));
    CHECK(residency->absent_until({page(5), page(5)}) == page(5));
  }
  // Of a file, what neither of them has.
  for (const Mapping& mapping : space.mappings()) {
    if (mapping.is_anonymous()) continue;
    CHECK(copied.absent_until(mapping.range) == pages.absent_until(mapping.range));
  }
}

TEST_CASE("of memory that a copy lacks, only what is absent is passed over") {
  const SparseMemory memory(16, {8});
  PageMap pages = own_page_map();
  const ProcFs proc;
  const AddressSpace space(proc.maps(::getpid()));
  const Mapping* const found = space.find(memory.begin());
  REQUIRE(found != nullptr);
  Mapping upper = *found;  // another mapping may continue it
  upper.range = {memory.begin() + 4 * kPage, memory.begin() + 16 * kPage};
  MissingMemory missing;
  const auto reader = open_running_process(::getpid());
  REQUIRE(missing.keep(upper, pages, reader->memory()));
  CopiedPageMap copied(proc, ::getpid(), ::getpid(), space, missing);
  const Address touched = memory.begin() + 8 * kPage;
  CHECK(copied.absent_until(memory.range()) <= upper.range.begin);
  CHECK(copied.absent_until(upper.range) == touched);
  CHECK(copied.absent_until({upper.range.begin, touched}) == touched);
  CHECK(copied.absent_until({touched, upper.range.end}) == touched);
  CHECK(copied.absent_until({touched + kPage, upper.range.end}) == upper.range.end);
}

TEST_CASE("what is kept of a mapping of terabytes costs what is in memory of it") {
  constexpr size_t kSize = size_t{8} << 40;
  constexpr size_t kFar = size_t{5} << 40;
  void* const memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  static_cast<volatile char*>(memory)[kFar] = 'x';
  const Address begin(reinterpret_cast<uint64_t>(memory));
  PageMap pages = own_page_map();
  Mapping mapping;
  mapping.range = {begin, begin + kSize};
  mapping.readable = true;
  MissingMemory missing;
  const auto reader = open_running_process(::getpid());
  const size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  const bool is_kept = missing.keep(mapping, pages, reader->memory());
  const size_t now = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  if (pages.count({begin, begin + kPage}, PageMap::Pages::kAny)) {
    CHECK(is_kept);
    // A huge page may have come for the one byte.
    CHECK(now < before + (8 << 20));
    std::array<PageState, 3> states{};
    CHECK(missing.states(begin + kFar - 4096 * kPage, states) == 3);
    CHECK(states[0] == PageState::kAbsent);
    CHECK(missing.states(begin + kFar, std::span(states).first(1)) == 1);
    CHECK(states[0] != PageState::kAbsent);
    CHECK(missing.states(begin + kSize - kPage, states) == 1);
    CHECK(states[0] == PageState::kAbsent);
    CHECK(missing.bytes_of(mapping)->resident >= kPage);
    std::array<std::byte, 2> bytes{};
    CHECK(missing.read(begin + kFar, bytes) == 2);
    CHECK(bytes[0] == std::byte{'x'});
  } else {
    MESSAGE("this kernel has no PAGEMAP_SCAN");
    CHECK_FALSE(is_kept);
  }
  ::munmap(memory, kSize);
}

TEST_CASE("at the freeze, own pages are the copy's and others as before") {
  constexpr uint64_t kMiB = 1 << 20;
  Mapping mapping;
  // 10 MiB of a file, 2 of them written to; 4 are shared with others, which halves their share.
  const MappingUsage before{.rss = 10 * kMiB, .pss = 8 * kMiB, .anonymous = 2 * kMiB};
  const PageMap::Bytes own{.resident = 3 * kMiB, .huge = 0, .swapped = kMiB};
  MappingUsage usage = usage_at_freeze(mapping, own, before);
  CHECK(usage.rss == 11 * kMiB);
  CHECK(usage.pss == 9 * kMiB);
  CHECK(usage.anonymous == 3 * kMiB);
  CHECK(usage.swap == kMiB);

  // What said to be shared was given back meanwhile: nothing wraps.
  usage = usage_at_freeze(mapping, {}, {.rss = 4 * kMiB, .pss = kMiB, .anonymous = 4 * kMiB});
  CHECK(usage.rss == 0);
  CHECK(usage.pss == 0);

  mapping.shared = true;
  CHECK(usage_at_freeze(mapping, own, before) == before);
}
