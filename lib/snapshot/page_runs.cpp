#include "snapshot/page_runs.h"

#include <bit>

#include "base/byte_reader.h"
#include "base/error.h"
#include "snapshot/byte_writer.h"

namespace heapsnap {
namespace {

constexpr size_t kFullSection = 1U << 20;
constexpr int kKnownStates = static_cast<int>(PageState::kResidentHuge) + 1;

bool is_page_size(uint64_t bytes) {
  return std::has_single_bit(bytes) && bytes >= 512 && bytes <= (1U << 30);
}

}  // namespace

PageRunBuilder::PageRunBuilder(SectionSink& sink) : sink_(sink) {
  section_.kind = format::SectionKind::kPages;
  section_.columns.resize(1);
  section_.columns[0].id = format::kPageRuns;
}

void PageRunBuilder::begin_at(Address first_page, uint64_t page_size, uint64_t pages) {
  if (!is_page_size(page_size) || !first_page.is_aligned(page_size) || first_page < end_ ||
      pages > (~first_page.value()) / page_size) {
    throw Error(ErrorKind::kInternal, "cannot write page states",
                "they are not aligned or not in order");
  }
  if (page_size_ != page_size || section_.columns[0].bytes.size() >= kFullSection) {
    flush();
    open_section(first_page, page_size);
  } else if (first_page != end_) {
    extend(format::kPageGap, (first_page - end_) / page_size);
  }
  end_ = first_page + pages * page_size;
}

void PageRunBuilder::add(Address first_page, uint64_t page_size,
                         std::span<const PageState> states) {
  if (states.empty()) return;
  begin_at(first_page, page_size, states.size());
  for (size_t i = 0; i < states.size();) {
    size_t next = i + 1;
    while (next < states.size() && states[next] == states[i]) ++next;
    extend(static_cast<unsigned>(states[i]), next - i);
    i = next;
  }
}

void PageRunBuilder::add(const PageRun& run, uint64_t page_size) {
  if (run.range.is_empty()) return;
  const uint64_t pages = run.range.size() / page_size;
  begin_at(run.range.begin, page_size, pages);
  extend(static_cast<unsigned>(run.state), pages);
}

void PageRunBuilder::open_section(Address first_page, uint64_t page_size) {
  page_size_ = page_size;
  section_.begin = first_page;
  section_.items = 0;
  append_varint(section_.columns[0].bytes, page_size);
  append_varint(section_.columns[0].bytes, first_page.value());
}

void PageRunBuilder::extend(unsigned state, uint64_t pages) {
  if (state != state_) close_run();
  state_ = state;
  pages_ += pages;
}

void PageRunBuilder::close_run() {
  if (pages_ == 0) return;
  // Pages of 512 bytes or more: a count has 55 bits at most.
  append_varint(section_.columns[0].bytes, pages_ << 4 | state_);
  ++section_.items;
  pages_ = 0;
}

void PageRunBuilder::flush() {
  if (page_size_ == 0) return;
  close_run();
  sink_.add(section_);
  section_.columns[0].bytes.clear();
  page_size_ = 0;
}

void read_page_runs(std::span<const std::byte> column, uint32_t runs, Address begin,
                    const std::string& source, Address* end,
                    const std::function<void(const PageRun&)>& receive) {
  ByteReader reader(column, source);
  const uint64_t page_size = reader.read_varint();
  if (!is_page_size(page_size)) reader.fail("the page size is invalid");
  Address at(reader.read_varint());
  if (at != begin || !at.is_aligned(page_size) || at < *end) {
    reader.fail("pages do not begin where they should");
  }
  for (uint32_t i = 0; i < runs; ++i) {
    const uint64_t run = reader.read_varint();
    const uint64_t pages = run >> 4;
    const auto state = static_cast<unsigned>(run & 15);
    if (pages == 0 || pages > ~at.value() / page_size) {
      reader.fail("a run of pages leaves the address space");
    }
    const AddressRange range{at, at + pages * page_size};
    at = range.end;
    if (state == format::kPageGap) continue;
    receive({range, state < kKnownStates ? static_cast<PageState>(state) : PageState::kUnknown});
  }
  if (!reader.at_end()) reader.fail("bytes follow the last run of pages");
  *end = at;
}

}  // namespace heapsnap
