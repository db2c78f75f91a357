#include "platform/linux/proc/page_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace heapsnap {

namespace {

// linux/fs.h as of 6.15, written out here because the headers that we build with are older.
constexpr uint64_t kIsFile = 1U << 2;
constexpr uint64_t kIsPresent = 1U << 3;
constexpr uint64_t kIsSwapped = 1U << 4;
constexpr uint64_t kIsZeroPage = 1U << 5;
constexpr uint64_t kIsHuge = 1U << 6;
constexpr uint64_t kIsGuard = 1U << 8;

struct ScanRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};

struct ScanArguments {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t vec;
  uint64_t vec_len;
  uint64_t max_pages;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};
static_assert(sizeof(ScanArguments) == 96);

constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);

// Of pages that are in memory or in swap; what of them is told lies in return_mask.
ScanArguments scan_arguments(const AddressRange& range, std::span<ScanRegion> found) {
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.start = range.begin.value();
  arguments.end = range.end.value();
  arguments.vec = reinterpret_cast<uint64_t>(found.data());
  arguments.vec_len = found.size();
  arguments.category_anyof_mask = kIsPresent | kIsSwapped;
  arguments.return_mask = kIsPresent | kIsSwapped;
  return arguments;
}

}  // namespace

PageState page_state_of_entry(uint64_t entry) {
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kSwapped = uint64_t{1} << 62;
  constexpr uint64_t kFileOrShared = uint64_t{1} << 61;
  constexpr uint64_t kGuardRegion = uint64_t{1} << 58;
  if ((entry & kPresent) != 0) {
    return (entry & kFileOrShared) != 0 ? PageState::kResidentFile : PageState::kResident;
  }
  // A guard region is a marker where a swap entry would be; it holds no page.
  if ((entry & kGuardRegion) != 0) return PageState::kAbsent;
  if ((entry & kSwapped) == 0) return PageState::kAbsent;
  // The lowest bits number the swap file; to who may not see them they are 0. The kernel's own
  // entries have the numbers above (include/linux/swap.h): pages on their way to another place in
  // memory, of a device, poisoned; the last one marks that there is none.
  constexpr uint64_t kSwapFile = 0x1f;
  constexpr uint64_t kMostSwapFiles = 23;
  if ((entry & kSwapFile) == kSwapFile) return PageState::kAbsent;
  if ((entry & kSwapFile) < kMostSwapFiles) return PageState::kSwapped;
  return (entry & kFileOrShared) != 0 ? PageState::kResidentFile : PageState::kResident;
}

PageState page_state_of_categories(uint64_t categories) {
  if ((categories & (kIsZeroPage | kIsGuard)) != 0) return PageState::kAbsent;
  if ((categories & kIsPresent) != 0) {
    if ((categories & kIsHuge) != 0) return PageState::kResidentHuge;
    return (categories & kIsFile) != 0 ? PageState::kResidentFile : PageState::kResident;
  }
  return (categories & kIsSwapped) != 0 ? PageState::kSwapped : PageState::kAbsent;
}

PageMap::PageMap(const ProcFs& proc, int pid)
    : page_size_(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))),
      pagemap_(::open(proc.path(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}

void PageMap::read(Address first_page, std::span<PageState> out) {
  read(first_page, out, Pages::kAny);
}

void PageMap::read_anonymous(Address first_page, std::span<PageState> out) {
  read(first_page, out, Pages::kAnonymous);
}

void PageMap::read(Address first_page, std::span<PageState> out, Pages pages) {
  if (!pagemap_) {
    std::fill(out.begin(), out.end(), PageState::kUnknown);
    return;
  }
  std::fill(out.begin(), out.end(), PageState::kAbsent);
  const AddressRange range{first_page, first_page + out.size() * page_size_};
  const auto set_states = [&](AddressRange run, uint64_t categories) {
    const auto begin = static_cast<ptrdiff_t>((run.begin - first_page) / page_size_);
    const auto end = static_cast<ptrdiff_t>((run.end - first_page) / page_size_);
    const PageState state = page_state_of_categories(categories);
    const auto states = out.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    std::fill(states.begin(), states.end(), state);
    // The scan does not tell a page in swap from one that the kernel is moving.
    if (state == PageState::kSwapped) read_entries(run.begin, states);
  };
  if (scan(range, pages, set_states)) return;
  read_entries(first_page, out);
}

Address PageMap::absent_until(AddressRange range) {
  if (!has_scan_ || !pagemap_ || range.is_empty()) return range.begin;
  ScanRegion first{};
  ScanArguments arguments = scan_arguments(range, std::span(&first, 1));
  arguments.max_pages = 1;
  int count = 0;
  do {
    count = ::ioctl(pagemap_.get(), kPagemapScan, &arguments);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return range.begin;
  const Address end = count == 0 ? Address(arguments.walk_end) : Address(first.start);
  return range.begin <= end && end <= range.end ? end : range.begin;
}

std::optional<PageMap::Bytes> PageMap::count(AddressRange range, Pages pages) {
  Bytes bytes;
  scan(range, pages, [&](AddressRange run, uint64_t categories) {
    switch (page_state_of_categories(categories)) {
      case PageState::kResidentHuge:
        if ((categories & kIsFile) != 0) break;
        bytes.huge += run.size();
        [[fallthrough]];
      case PageState::kResident: bytes.resident += run.size(); break;
      case PageState::kSwapped: {
        std::vector<PageState> states(run.size() / page_size_, PageState::kSwapped);
        read_entries(run.begin, states);
        const auto moved = std::count(states.begin(), states.end(), PageState::kResident);
        const auto swapped = std::count(states.begin(), states.end(), PageState::kSwapped);
        bytes.resident += static_cast<uint64_t>(moved) * page_size_;
        bytes.swapped += static_cast<uint64_t>(swapped) * page_size_;
        break;
      }
      default: break;
    }
  });
  return has_scan_ && pagemap_ ? std::optional(bytes) : std::nullopt;
}

bool PageMap::scan(AddressRange range, Pages pages, const Visit& visit) {
  std::array<ScanRegion, 512> regions;
  ScanArguments arguments = scan_arguments(range, regions);
  // The range wraps or is empty.
  if (!has_scan_ || !pagemap_ || arguments.end <= arguments.start) return false;
  bool first = true;
  while (arguments.start < arguments.end) {
    arguments.return_mask = kIsPresent | kIsSwapped | kIsZeroPage | kIsHuge |
                            (pages == Pages::kAny ? kIsFile : 0) | (knows_guard_ ? kIsGuard : 0);
    const int count = ::ioctl(pagemap_.get(), kPagemapScan, &arguments);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EINVAL && knows_guard_) {  // before 6.15
        knows_guard_ = false;
        continue;
      }
      if (first && (errno == ENOTTY || errno == EINVAL)) has_scan_ = false;
      return false;
    }
    first = false;
    for (int i = 0; i < count; ++i) {
      const ScanRegion& region = regions[static_cast<size_t>(i)];
      const AddressRange run{Address(region.start), Address(region.end)};
      if (run.begin < range.begin || run.end < run.begin || range.end < run.end) continue;
      visit(run, region.categories);
    }
    if (arguments.walk_end <= arguments.start) return false;
    arguments.start = arguments.walk_end;
  }
  return true;
}

void PageMap::read_entries(Address first_page, std::span<PageState> out) {
  std::array<uint64_t, 4096> entries;
  size_t done = 0;
  while (done < out.size()) {
    const size_t wanted = std::min(out.size() - done, entries.size());
    const uint64_t offset = (first_page.value() / page_size_ + done) * sizeof(uint64_t);
    const ssize_t got = ::pread(pagemap_.get(), entries.data(), wanted * sizeof(uint64_t),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    const size_t count = got > 0 ? static_cast<size_t>(got) / sizeof(uint64_t) : 0;
    for (size_t i = 0; i < count; ++i) out[done + i] = page_state_of_entry(entries[i]);
    done += count;
    if (count != 0) continue;
    // The end of the address space reads as end of file; an error means that the process is gone.
    const PageState rest = got == 0 ? PageState::kAbsent : PageState::kUnknown;
    std::fill(out.begin() + static_cast<ptrdiff_t>(done), out.end(), rest);
    return;
  }
}

}  // namespace heapsnap
