// Which pages of a process are in memory, from /proc/PID/pagemap.
//
//   bit 63        62       61                       58                      4 to 0
//   in memory  in swap  of a file or shared      guard region (6.15)   swap file, 23 and more: none
//
// Where the kernel has it (6.7), the ioctl PAGEMAP_SCAN of the same file is used instead: it
// returns runs, not pages, so an absent terabyte costs nothing; and only it recognizes huge pages,
// and pages that are just the shared zero page, which cost nothing and count as absent.
#pragma once

#include <functional>
#include <optional>

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/page_residency.h"

namespace heapsnap {

// State of a page from its 64 bits of pagemap.
PageState page_state_of_entry(uint64_t entry);
// State of the pages of a run from its PAGEMAP_SCAN categories (PAGE_IS_*, linux/fs.h).
PageState page_state_of_categories(uint64_t categories);

class PageMap : public PageResidency {
 public:
  // If pagemap cannot be opened, every page is kUnknown.
  PageMap(const ProcFs& proc, int pid);

  uint64_t page_size() const override { return page_size_; }
  void read(Address first_page, std::span<PageState> out) override;
  Address absent_until(AddressRange range) override;
  // As read(), for private anonymous memory, where no page belongs to a file: the kernel need not
  // check each page for that, which is most of its work.
  void read_anonymous(Address first_page, std::span<PageState> out);

  enum class Pages : bool { kAny, kAnonymous };
  struct Bytes {
    uint64_t resident = 0;  // in memory, anonymous; huge pages too
    uint64_t huge = 0;
    uint64_t swapped = 0;
  };
  // How much of `range` (page aligned, in private memory) is in which state; addresses of the
  // kernel ([vsyscall]) hold nothing. nullopt where the kernel has no PAGEMAP_SCAN.
  std::optional<Bytes> count(AddressRange range, Pages pages);

 private:
  using Visit = std::function<void(AddressRange, uint64_t categories)>;

  void read(Address first_page, std::span<PageState> out, Pages pages);
  // Visits all runs in `range` that are in memory or in swap, in order. Returns false if the kernel
  // did not answer, or stopped answering part way.
  bool scan(AddressRange range, Pages pages, const Visit& visit);
  void read_entries(Address first_page, std::span<PageState> out);

  uint64_t page_size_;
  UniqueFd pagemap_;
  bool has_scan_ = true;
  bool knows_guard_ = true;
};

}  // namespace heapsnap
