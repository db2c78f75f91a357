#include "report/kept_contents.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace heapsnap {

namespace {

constexpr size_t kBlockSize = 1 << 20;

struct Part {
  Address from;
  size_t offset = 0;  // in the block's bytes
  size_t size = 0;
};

struct Block {
  std::vector<Part> parts;  // ascending
  std::vector<std::byte> bytes;
};

// Unwinds the reading thread out of the snapshot when nobody wants more.
struct Abandoned {};

}  // namespace

struct KeptContents::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Block> ready;  // filled, not yet taken
  std::exception_ptr failure;  // of the reading thread
  bool is_done = false;        // no block after `ready`
  bool is_abandoned = false;
  Block current;    // of the asking thread
  size_t part = 0;  // first of `current` that may still be asked for
  std::thread thread;

  void hand_over(Block& block) {
    if (block.parts.empty()) return;
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !ready || is_abandoned; });
    if (is_abandoned) throw Abandoned();
    ready = std::exchange(block, {});
    changed.notify_all();
  }

  void read_all(const SnapshotStreams& streams) {
    Block block;
    streams.read_contents([&](Address from, std::span<const std::byte> bytes) {
      block.parts.push_back({from, block.bytes.size(), bytes.size()});
      block.bytes.insert(block.bytes.end(), bytes.begin(), bytes.end());
      if (block.bytes.size() >= kBlockSize) hand_over(block);
    });
    hand_over(block);
  }

  void run(const SnapshotStreams& streams) {
    std::exception_ptr problem;
    try {
      if (streams.read_contents) read_all(streams);
    } catch (const Abandoned&) {
    } catch (...) {
      problem = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    failure = problem;
    is_done = true;
    changed.notify_all();
  }

  // Makes `current` the next block; false when there is none.
  bool advance() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return ready || is_done; });
    if (!ready) {
      if (failure) std::rethrow_exception(failure);
      return false;
    }
    current = *std::exchange(ready, std::nullopt);
    part = 0;
    changed.notify_all();
    return true;
  }
};

KeptContents::KeptContents(const SnapshotStreams& streams) : state_(std::make_unique<State>()) {
  state_->thread = std::thread([state = state_.get(), &streams] { state->run(streams); });
}

KeptContents::~KeptContents() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_abandoned = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

bool KeptContents::is_empty() {
  return state_->current.parts.empty() && !state_->advance();
}

void KeptContents::read(Address from, std::span<std::byte> out, std::span<bool> kept) {
  std::fill(kept.begin(), kept.end(), false);
  const Address end = from + out.size();
  while (from < end) {
    if (state_->part == state_->current.parts.size()) {
      if (!state_->advance()) return;
      continue;
    }
    const Part& part = state_->current.parts[state_->part];
    const AddressRange range{part.from, part.from + part.size};
    if (range.end <= from) {
      ++state_->part;
      continue;
    }
    if (range.begin >= end) return;
    const Address begin = std::max(from, range.begin);
    const size_t count = std::min(range.end, end) - begin;
    const size_t at = out.size() - (end - begin);
    std::memcpy(out.data() + at, state_->current.bytes.data() + part.offset + (begin - part.from),
                count);
    std::fill_n(kept.begin() + static_cast<std::ptrdiff_t>(at), count, true);
    from = begin + count;
  }
}

}  // namespace heapsnap
