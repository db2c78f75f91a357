// Page states as runs, since neighbours are mostly alike: one varint a run, count * 16 + state.
//
//   page size, address of the first page, runs...     a run of state 15 is a gap: nothing is said
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/address.h"
#include "snapshot/section.h"
#include "target/page_residency.h"

namespace heapsnap {

struct PageRun {
  AddressRange range;
  PageState state = PageState::kUnknown;
};

class PageRunBuilder {
 public:
  explicit PageRunBuilder(SectionSink& sink);

  // Throws Error{kInternal} for pages that are not aligned, not past those before, or of a size
  // that is no power of two between 512 bytes and 1 GiB.
  void add(Address first_page, uint64_t page_size, std::span<const PageState> states);
  // The same of one run of whole pages.
  void add(const PageRun& run, uint64_t page_size);
  // Hands over what is left. Call it after the last page.
  void flush();

 private:
  void begin_at(Address first_page, uint64_t page_size, uint64_t pages);
  void open_section(Address first_page, uint64_t page_size);
  void extend(unsigned state, uint64_t pages);
  void close_run();

  SectionSink& sink_;
  Section section_;
  uint64_t page_size_ = 0;  // of the open section; 0: none is open
  Address end_;             // of the last page over all sections
  unsigned state_ = 0;      // of the open run
  uint64_t pages_ = 0;      // of the open run
};

// Gives the runs of one section to `receive`. Throws Error{kBadInput} when they are damaged, do not
// begin at `begin`, or begin before `*end`, which is moved to their end.
void read_page_runs(std::span<const std::byte> column, uint32_t runs, Address begin,
                    const std::string& source, Address* end,
                    const std::function<void(const PageRun&)>& receive);

}  // namespace heapsnap
