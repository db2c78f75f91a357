// A target whose memory costs only the pages that were written, however large its mappings are, and
// which says so: pages never written are absent, and reads of them are counted.
//
// FakeTarget (beside this) is for what has files and small mappings; this is for heaps.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "target/target.h"

namespace heapsnap {

class SparseTarget : public Target, private MemoryReader, private PageResidency {
 public:
  static constexpr uint64_t kPage = 4096;

  explicit SparseTarget(Machine machine) { process_.machine = machine; }

  // A line of /proc/PID/maps; memory is zero and absent.
  void map(const std::string& line) {
    auto mappings = space_.mappings();
    const Mapping mapping = parse_maps(line + "\n").at(0);
    mappings.insert(std::upper_bound(mappings.begin(), mappings.end(), mapping,
                                     [](const Mapping& a, const Mapping& b) {
                                       return a.range.begin < b.range.begin;
                                     }),
                    mapping);
    space_ = AddressSpace(std::move(mappings));
  }
  void map(Address begin, uint64_t size, const std::string& permissions = "rw-p",
           const std::string& name = "") {
    map(hex_digits(begin) + "-" + hex_digits(begin + size) + " " + permissions +
        " 00000000 00:00 0 " + name);
  }

  // Writing outside of every mapping fails the test.
  void put_bytes(Address at, std::span<const std::byte> bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const Address to = at + done;
      const uint64_t offset = to.value() % kPage;
      const size_t count = std::min<size_t>(bytes.size() - done, kPage - offset);
      std::memcpy(page_to_write(to).data() + offset, bytes.data() + done, count);
      done += count;
    }
  }
  void put_word(Address at, uint64_t value) {
    put_bytes(at, std::as_bytes(std::span(&value, 1)).first(word_size(process_.machine)));
  }
  uint64_t word(Address at) {
    uint64_t value = 0;
    read_exact(at, std::as_writable_bytes(std::span(&value, 1)).first(word_size(process_.machine)));
    return value;
  }
  // Reads stop here, as at a guard page inside a mapping. Page aligned.
  void make_unreadable(AddressRange hole) { holes_.push_back(hole); }
  void mark_swapped(Address page) { swapped_.insert(page.value() / kPage); }
  // As in a core: nothing is known of any page.
  void forget_residency() { knows_residency_ = false; }
  // As in a core: what lies in a hole is known not to be there.
  void know_holes() { knows_holes_ = true; }
  void add_thread(int tid, std::optional<Registers> registers) {
    threads_.push_back({tid, "", registers});
  }

  // Where memory was written, in order; a hole ends a range.
  std::vector<AddressRange> written() const {
    std::vector<uint64_t> numbers;
    for (const auto& [number, page] : pages_) {
      if (is_readable(Address(number * kPage))) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    std::vector<AddressRange> ranges;
    for (const uint64_t number : numbers) {
      const Address page(number * kPage);
      if (ranges.empty() || ranges.back().end != page) ranges.push_back({page, page});
      ranges.back().end = page + kPage;
    }
    return ranges;
  }

  uint64_t bytes_read() const { return bytes_read_; }
  // How often memory was asked for, by whatever size.
  uint64_t reads() const { return reads_; }
  // Pages read that were absent or swapped: each would have cost the target something.
  uint64_t costly_pages_read() const { return costly_pages_read_; }
  // Pages whose state was asked for.
  uint64_t states_read() const { return states_read_; }
  Process& editable_process() { return process_; }

  const Process& process() const override { return process_; }
  const AddressSpace& address_space() const override { return space_; }
  const std::vector<Thread>& threads() const override { return threads_; }
  MemoryReader& memory() override { return *this; }
  PageResidency& residency() override { return *this; }
  std::optional<MappedFile> open_file(const Mapping&) override { return std::nullopt; }

 private:
  using Page = std::array<std::byte, kPage>;

  static std::string hex_digits(Address address) {
    char text[17];
    std::snprintf(text, sizeof(text), "%08llx", static_cast<unsigned long long>(address.value()));
    return text;
  }

  bool is_readable(Address at) const {
    const Mapping* const mapping = space_.find(at);
    return mapping != nullptr && mapping->readable &&
           std::none_of(holes_.begin(), holes_.end(),
                        [at](const AddressRange& hole) { return hole.contains(at); });
  }

  Page& page_to_write(Address at) {
    if (!is_readable(at)) {
      throw Error(ErrorKind::kInternal, "a test wrote outside of its memory", hex_digits(at));
    }
    return pages_.try_emplace(at.value() / kPage, Page{}).first->second;
  }

  AddressRange next_readable(AddressRange range) override {
    if (!knows_holes_) return range;
    for (const AddressRange& hole : holes_) {
      if (hole.contains(range.begin)) range.begin = std::min(hole.end, range.end);
      if (range.begin < hole.begin) range.end = std::min(range.end, hole.begin);
    }
    return range;
  }

  size_t read(Address from, std::span<std::byte> out) override {
    ++reads_;
    size_t done = 0;
    while (done < out.size()) {
      const Address at = from + done;
      if (!is_readable(at)) break;
      const uint64_t offset = at.value() % kPage;
      const size_t count = std::min<size_t>(out.size() - done, kPage - offset);
      const auto page = pages_.find(at.value() / kPage);
      if (page == pages_.end() || swapped_.contains(page->first)) ++costly_pages_read_;
      if (page == pages_.end()) {
        std::memset(out.data() + done, 0, count);
      } else {
        std::memcpy(out.data() + done, page->second.data() + offset, count);
      }
      done += count;
    }
    bytes_read_ += done;
    return done;
  }

  uint64_t page_size() const override { return process_.page_size; }
  Address absent_until(AddressRange range) override {
    Address first = knows_residency_ ? range.end : range.begin;
    for (const auto& [number, page] : pages_) {
      const Address at(number * kPage);
      if (range.contains(at)) first = std::min(first, at);
    }
    return first;
  }
  void read(Address first_page, std::span<PageState> out) override {
    states_read_ += out.size();
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t number = first_page.value() / kPage + i;
      out[i] = !knows_residency_           ? PageState::kUnknown
               : swapped_.contains(number) ? PageState::kSwapped
               : pages_.contains(number)   ? PageState::kResident
                                           : PageState::kAbsent;
    }
  }

  Process process_;
  AddressSpace space_;
  std::vector<Thread> threads_;
  std::unordered_map<uint64_t, Page> pages_;
  std::unordered_set<uint64_t> swapped_;
  std::vector<AddressRange> holes_;
  bool knows_residency_ = true;
  bool knows_holes_ = false;
  uint64_t reads_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t states_read_ = 0;
  uint64_t costly_pages_read_ = 0;
};

}  // namespace heapsnap
