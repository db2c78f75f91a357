// Pieces of memory that two threads work on, a few at a time:
//
//   read      piece 4     this thread, in order
//   look up   piece 3     either thread, also two pieces at once
//   use 0     piece 2     either thread, in order, one piece at a time
//   use 1     piece 1     the same
//   retire    piece 0     this thread, in order; then its memory is used again
//
// A thread that is free does what comes next: both are busy unless one use takes longer than all
// the rest.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/address.h"
#include "base/large_memory.h"
#include "references/reference.h"

namespace heapsnap {

// A word that holds an address in a block.
struct FoundWord {
  Address at;
  BlockNumber target = kNoBlock;
  uint8_t inside = 0;  // how_far_inside()
};

// Such a word in a block of a piece. It is small: a piece may have 262,144 of them.
struct FoundReference {
  // No bit-fields: compilers read what they lie in before they write it, and these are written to
  // memory that nobody has touched (base/large_memory.h).
  static constexpr unsigned kInsideBits = 8;
  static uint32_t place_of(uint32_t at, uint8_t inside) { return at << kInsideBits | inside; }
  uint32_t at() const { return place >> kInsideBits; }
  uint8_t inside() const { return static_cast<uint8_t>(place); }

  uint32_t place;  // in bytes, from the piece's first one on; then how_far_inside()
  BlockNumber target;
  BlockNumber source;
  uint32_t offset;  // in the source, in words of the target
};

// The first word of a block that is in memory.
struct FirstWord {
  BlockNumber block = kNoBlock;
  Address address;  // of the block
  uint64_t value = 0;
  std::span<const std::byte> bytes;  // from there on, past the block's end; of the piece
};

struct ScannedPiece {
  Address from;
  std::span<const std::byte> bytes;
  bool in_slots = false;        // of a language runtime, not in blocks of malloc
  std::span<std::byte> memory;  // what the bytes lie in, if another thread may look at them
  LargeArray<FoundReference, Pages::kSmall> words;  // ascending
  std::vector<FirstWord> first_words;               // the same
};

// Starts a thread; throws std::system_error if it cannot.
using StartThread = std::function<std::thread(std::function<void()>)>;

class PiecePipeline {
 public:
  static constexpr unsigned kThreads = 2;
  static constexpr unsigned kUses = 2;
  static constexpr size_t kPieces = 4;  // that are worked on at a time

  struct Steps {
    // `thread`, less than kThreads, is another one for each call that runs at the same time.
    std::function<void(ScannedPiece&, unsigned thread)> look_up;
    std::array<std::function<void(const ScannedPiece&)>, kUses> uses;
    // On the thread that made the pipeline, in order, before the piece is used again.
    std::function<void(const ScannedPiece&)> retire;
  };

  // `start`: empty for no other thread; the same where none can be started.
  PiecePipeline(const StartThread& start, Steps steps);
  PiecePipeline(const PiecePipeline&) = delete;
  PiecePipeline& operator=(const PiecePipeline&) = delete;
  // What is not done yet is dropped.
  ~PiecePipeline();

  // Whether what is given must live on after give().
  bool has_thread() const { return thread_.joinable(); }

  // These throw what a step threw.
  // A piece that is free, without words; works on others while there is none.
  ScannedPiece make_piece();
  void give(ScannedPiece piece);
  // Works until all is done.
  void finish();

 private:
  enum class Stage { kRead, kLookingUp, kLookedUp };
  // In cache lines of its own, as each thread writes to one.
  struct alignas(64) Item {
    ScannedPiece piece;
    Stage stage = Stage::kRead;
    unsigned uses_left = kUses;
  };
  struct Use {
    uint64_t next = 0;  // number of the piece
    bool is_running = false;
  };
  // What can be done now.
  struct Task {
    Item* item = nullptr;  // null: nothing
    Use* use = nullptr;    // null: look up
  };
  using Lock = std::unique_lock<std::mutex>;

  void serve();
  Task next_task();
  void run(const Task& task, Lock& lock, unsigned thread);
  void work_or_wait(Lock& lock);
  void work_on_all(Lock& lock);
  void retire_done(Lock& lock);
  void end();

  Steps steps_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ScannedPiece> free_;
  std::deque<Item> items_;  // in order
  uint64_t retired_ = 0;    // number of the first one
  std::array<Use, kUses> uses_;
  std::exception_ptr failure_;
  bool is_ending_ = false;
  std::thread thread_;  // none: give() does all
};

}  // namespace heapsnap
