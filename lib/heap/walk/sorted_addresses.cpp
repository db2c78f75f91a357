#include "heap/walk/sorted_addresses.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/unnamed_file.h"

namespace heapsnap {
namespace {

constexpr size_t kRunBuffer = 8192;  // words of each run kept ready for the merge
constexpr size_t kMergeBlock = 4096;

UniqueFd open_temporary_file() {
  const char* const wish = std::getenv("TMPDIR");
  for (const char* folder : {wish, "/var/tmp", "/tmp"}) {
    if (folder == nullptr || *folder == '\0') continue;
    UniqueFd file = open_unnamed_file(folder);
    if (file) return file;
  }
  return {};
}

// Radix sort, least significant digit first, over those bits only that differ between words: for a
// heap of 4 GiB three passes.
void sort_words(std::vector<uint64_t>& words, std::vector<uint64_t>& scratch) {
  constexpr unsigned kDigitBits = 11;
  if (words.size() < 4096) {
    std::sort(words.begin(), words.end());
    return;
  }
  uint64_t differing = 0;
  for (const uint64_t word : words) differing |= word ^ words.front();
  scratch.resize(words.size());
  while (differing != 0) {
    const auto shift = static_cast<unsigned>(std::countr_zero(differing));
    const uint64_t mask = (1ULL << kDigitBits) - 1;
    std::array<size_t, 1ULL << kDigitBits> places{};
    for (const uint64_t word : words) ++places[(word >> shift) & mask];
    size_t sum = 0;
    for (size_t& place : places) sum += std::exchange(place, sum);
    for (const uint64_t word : words) scratch[places[(word >> shift) & mask]++] = word;
    words.swap(scratch);
    differing &= ~(mask << shift);
  }
}

}  // namespace

SortedAddresses::SortedAddresses(size_t buffer) : limit_(std::max<size_t>(buffer, 1)) {}

void SortedAddresses::spill() {
  if (!file_) file_ = open_temporary_file();
  sort_words(buffer_, scratch_);
  const auto bytes = std::as_bytes(std::span(buffer_));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(file_size_ + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {  // there is no file, or no room for it
      limit_ *= 2;
      return;
    }
    done += static_cast<size_t>(written);
  }
  runs_.push_back({file_size_, buffer_.size()});
  file_size_ += bytes.size();
  buffer_.clear();
}

void SortedAddresses::finish() {
  sort_words(buffer_, scratch_);
  scratch_ = {};
}

struct SortedAddresses::Cursor::RunReader {
  uint64_t offset = 0;  // of the words not read yet
  uint64_t left = 0;
  std::vector<uint64_t> words;
  size_t next = 0;

  uint64_t smallest() const { return words[next]; }
};

SortedAddresses::Cursor::~Cursor() = default;
SortedAddresses::Cursor::Cursor(Cursor&&) noexcept = default;
SortedAddresses::Cursor& SortedAddresses::Cursor::operator=(Cursor&&) noexcept = default;

SortedAddresses::Cursor::Cursor(const SortedAddresses& sorted) : sorted_(&sorted) {
  if (sorted.runs_.empty()) {
    block_ = sorted.buffer_.data();
    block_end_ = block_ + sorted.buffer_.size();
    return;
  }
  for (const Run& run : sorted.runs_) {
    RunReader reader{run.offset, run.words, {}, 0};
    if (refill(reader)) heap_.push_back(std::move(reader));
  }
  if (!sorted.buffer_.empty()) heap_.push_back({0, 0, sorted.buffer_, 0});
  std::make_heap(heap_.begin(), heap_.end(), [](const RunReader& a, const RunReader& b) {
    return a.smallest() > b.smallest();
  });
  merge_more();
}

bool SortedAddresses::Cursor::refill(RunReader& run) {
  const size_t count = std::min<uint64_t>(run.left, kRunBuffer);
  run.words.resize(count);
  run.next = 0;
  const auto bytes = std::as_writable_bytes(std::span(run.words));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(sorted_->file_.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(run.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ErrorKind::kOutput, "the temporary file for free chunks cannot be read",
                  got == 0 ? "it is shorter than what was written" : errno_text(errno));
    }
    done += static_cast<size_t>(got);
  }
  run.offset += bytes.size();
  run.left -= count;
  return count != 0;
}

void SortedAddresses::Cursor::merge_more() {
  merged_.clear();
  const auto later = [](const RunReader& a, const RunReader& b) {
    return a.smallest() > b.smallest();
  };
  while (!heap_.empty() && merged_.size() < kMergeBlock) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    RunReader& run = heap_.back();
    // Everything up to the second smallest run's word comes from this one.
    const uint64_t bound = heap_.size() > 1 ? heap_.front().smallest() : ~0ULL;
    while (run.next < run.words.size() && run.smallest() <= bound && merged_.size() < kMergeBlock) {
      merged_.push_back(run.words[run.next++]);
    }
    if (run.next == run.words.size() && !refill(run)) {
      heap_.pop_back();
    } else {
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }
  block_ = merged_.data();
  block_end_ = block_ + merged_.size();
}

}  // namespace heapsnap
