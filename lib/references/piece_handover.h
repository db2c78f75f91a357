// Pieces of memory, in order, from the thread that reads them to one that works on them:
//
//   this thread:   read, look words up  ──give()──►  work(piece)   :the other
//                        ▲                              │
//                        └───────make_piece()───────────┘
//
// Without another thread, give() does the work itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/address.h"
#include "references/reference.h"

namespace heapsnap {

// A word that holds an address in a block.
struct FoundWord {
  Address at;
  BlockNumber target = kNoBlock;
  uint8_t inside = 0;  // how_far_inside()
};

// One that lies in a block.
struct FoundReference {
  FoundWord word;
  BlockNumber source = kNoBlock;
  uint32_t offset = 0;  // in words of the target
};

struct ScannedPiece {
  Address from;
  std::span<const std::byte> bytes;
  std::vector<std::byte> memory;      // what they lie in, if another thread is to look at them
  std::vector<FoundReference> words;  // ascending
};

// Starts a thread; throws std::system_error if it cannot.
using StartThread = std::function<std::thread(std::function<void()>)>;

class PieceHandover {
 public:
  // `start`: empty for no other thread; the same where none can be started.
  PieceHandover(const StartThread& start, std::function<void(const ScannedPiece&)> work);
  PieceHandover(const PieceHandover&) = delete;
  PieceHandover& operator=(const PieceHandover&) = delete;
  // What was given and is not worked on yet is dropped.
  ~PieceHandover();

  // Whether what is given must live on after give().
  bool has_thread() const { return thread_.joinable(); }

  // Waits for a piece that is free, without words. Throws what `work` threw.
  ScannedPiece make_piece();
  void give(ScannedPiece piece);
  // Waits until all is worked on. Throws what `work` threw.
  void finish();

 private:
  static constexpr size_t kPieces = 4;

  void serve();
  void end(bool is_dropped);
  void rethrow_failure();

  std::function<void(const ScannedPiece&)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ScannedPiece> empty_;
  std::deque<ScannedPiece> waiting_;
  std::exception_ptr failure_;
  bool is_ending_ = false;
  std::thread thread_;  // none: give() works
};

}  // namespace heapsnap
