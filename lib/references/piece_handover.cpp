#include "references/piece_handover.h"

#include <system_error>
#include <utility>

namespace heapsnap {

PieceHandover::PieceHandover(const StartThread& start,
                             std::function<void(const ScannedPiece&)> work)
    : work_(std::move(work)), empty_(start ? kPieces : 1) {
  if (!start) return;
  try {
    thread_ = start([this] { serve(); });
  } catch (const std::system_error&) {
    empty_.resize(1);
  }
}

PieceHandover::~PieceHandover() {
  end(true);
}

ScannedPiece PieceHandover::make_piece() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !empty_.empty() || failure_; });
  rethrow_failure();
  ScannedPiece piece = std::move(empty_.back());
  empty_.pop_back();
  piece.words.clear();
  return piece;
}

void PieceHandover::give(ScannedPiece piece) {
  if (!thread_.joinable()) {
    work_(piece);
    empty_.push_back(std::move(piece));
    return;
  }
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(piece));
  changed_.notify_all();
}

void PieceHandover::finish() {
  end(false);
  rethrow_failure();
}

void PieceHandover::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !waiting_.empty() || is_ending_; });
    if (waiting_.empty()) return;
    ScannedPiece piece = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      work_(piece);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    empty_.push_back(std::move(piece));
    changed_.notify_all();
    if (!failure) continue;
    failure_ = failure;
    return;
  }
}

void PieceHandover::end(bool is_dropped) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    if (is_dropped) waiting_.clear();
    changed_.notify_all();
  }
  thread_.join();
}

void PieceHandover::rethrow_failure() {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace heapsnap
