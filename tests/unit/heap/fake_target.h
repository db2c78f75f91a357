// A target made of bytes: regions of memory, mappings, threads and files that a test puts together.
//
//   FakeTarget target(Machine::kX86_64);
//   target.map("555555554000-555555576000 rw-p 00000000 00:00 0 [heap]");
//   target.put_word(Address(0x555555554008), 0x291);
//
// A word is 4 or 8 bytes by the machine. Writing outside of a mapping fails the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "target/target.h"

namespace heapsnap {

class FakeTarget : public Target, private MemoryReader, private PageResidency {
 public:
  explicit FakeTarget(Machine machine) { process_.machine = machine; }

  // A line of /proc/PID/maps; readable memory is zero. Lines may come in any order.
  void map(const std::string& line) {
    const Mapping mapping = parse_maps(line + "\n").at(0);
    if (mapping.readable) memory_[mapping.range.begin].resize(mapping.range.size());
    auto mappings = space_.mappings();
    mappings.insert(std::upper_bound(mappings.begin(), mappings.end(), mapping,
                                     [](const Mapping& a, const Mapping& b) {
                                       return a.range.begin < b.range.begin;
                                     }),
                    mapping);
    space_ = AddressSpace(std::move(mappings));
  }
  // Takes a hole's bytes away: reads stop at its begin, as at a guard page inside a mapping.
  void make_unreadable(AddressRange hole) { holes_.push_back(hole); }

  void put_bytes(Address at, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(writable(at, bytes.size()), bytes.data(), bytes.size());
  }
  template <typename T>
  void put(Address at, const T& value) {
    put_bytes(at, std::as_bytes(std::span(&value, 1)));
  }
  void put_word(Address at, uint64_t value) {
    std::memcpy(writable(at, word_size(process_.machine)), &value, word_size(process_.machine));
  }

  void add_thread(int tid, Address thread_pointer, Address instruction_pointer = {}) {
    threads_.push_back({tid, "", Registers{instruction_pointer, Address(), thread_pointer}});
  }
  // What open_file() gives for mappings of that path.
  void add_file(const std::string& path, std::vector<std::byte> bytes) {
    files_[path] = std::move(bytes);
  }
  // The same with the bytes of a file of this machine.
  void add_file_from(const std::string& path, const std::string& real_path) {
    const MappedFile file = MappedFile::open(real_path);
    files_[path].assign(file.bytes().begin(), file.bytes().end());
  }

  Process& editable_process() { return process_; }
  std::vector<Thread>& editable_threads() { return threads_; }
  void set_state(Address page, PageState state) { states_[page] = state; }
  // From now on a page whose state was not set is absent, and is leaped over.
  void make_others_absent() { are_others_absent_ = true; }
  // Bytes asked of memory() so far, for tests of how little is read.
  uint64_t bytes_read() const { return bytes_read_; }
  // Called before each read, with how many there have been: a target that runs.
  void on_read(std::function<void(uint64_t)> change) { change_ = std::move(change); }

  const Process& process() const override { return process_; }
  const AddressSpace& address_space() const override { return space_; }
  const std::vector<Thread>& threads() const override { return threads_; }
  MemoryReader& memory() override { return *this; }
  PageResidency& residency() override { return *this; }

  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    const auto found = files_.find(mapping.path);
    if (found == files_.end()) return std::nullopt;
    UniqueFd fd(memfd_create("fake", MFD_CLOEXEC));
    std::span<const std::byte> rest = found->second;
    while (!rest.empty()) {
      const ssize_t written = ::write(fd.get(), rest.data(), rest.size());
      if (written <= 0) return std::nullopt;
      rest = rest.subspan(static_cast<size_t>(written));
    }
    return MappedFile::from_fd(std::move(fd), mapping.path);
  }

 private:
  size_t read(Address from, std::span<std::byte> out) override {
    if (change_) change_(reads_++);
    size_t done = 0;
    while (done < out.size()) {
      const Address at = from + done;
      const std::vector<std::byte>* region = nullptr;
      uint64_t offset = 0;
      const auto after = memory_.upper_bound(at);
      if (after != memory_.begin()) {
        const auto& [begin, bytes] = *std::prev(after);
        offset = at - begin;
        if (offset < bytes.size()) region = &bytes;
      }
      if (region == nullptr) break;
      uint64_t count = std::min<uint64_t>(region->size() - offset, out.size() - done);
      for (const AddressRange& hole : holes_) {
        if (hole.contains(at)) count = 0;
        if (at < hole.begin) count = std::min(count, hole.begin - at);
      }
      if (count == 0) break;
      std::memcpy(out.data() + done, region->data() + offset, count);
      done += count;
    }
    bytes_read_ += done;
    return done;
  }

  uint64_t page_size() const override { return process_.page_size; }
  void read(Address first_page, std::span<PageState> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      const auto known = states_.find(first_page + i * process_.page_size);
      const PageState other = are_others_absent_ ? PageState::kAbsent : PageState::kUnknown;
      out[i] = known == states_.end() ? other : known->second;
    }
  }
  Address absent_until(AddressRange range) override {
    if (!are_others_absent_) return range.begin;
    const auto next = states_.lower_bound(range.begin);
    return next == states_.end() ? range.end : std::min(range.end, next->first);
  }

  std::byte* writable(Address at, size_t size) {
    const auto after = memory_.upper_bound(at);
    if (after != memory_.begin()) {
      auto& [begin, bytes] = *std::prev(after);
      const uint64_t offset = at - begin;
      if (offset <= bytes.size() && size <= bytes.size() - offset) return bytes.data() + offset;
    }
    throw Error(ErrorKind::kInternal, "a test wrote outside of its fake memory",
                std::to_string(at.value()));
  }

  Process process_;
  AddressSpace space_;
  std::vector<Thread> threads_;
  std::map<Address, std::vector<std::byte>> memory_;
  std::map<Address, PageState> states_;
  bool are_others_absent_ = false;
  std::vector<AddressRange> holes_;
  std::function<void(uint64_t)> change_;
  uint64_t reads_ = 0;
  std::map<std::string, std::vector<std::byte>> files_;
  uint64_t bytes_read_ = 0;
};

}  // namespace heapsnap
