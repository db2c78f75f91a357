#include "references/piece_pipeline.h"

#include <system_error>
#include <utility>

namespace heapsnap {

PiecePipeline::PiecePipeline(const StartThread& start, Steps steps)
    : steps_(std::move(steps)), free_(start ? kPieces : 1) {
  if (!start) return;
  try {
    thread_ = start([this] { serve(); });
  } catch (const std::system_error&) {
    free_.resize(1);
  }
}

PiecePipeline::~PiecePipeline() {
  end();
}

ScannedPiece PiecePipeline::make_piece() {
  Lock lock(mutex_);
  retire_done(lock);
  while (free_.empty()) {
    work_or_wait(lock);
    retire_done(lock);
  }
  ScannedPiece piece = std::move(free_.back());
  free_.pop_back();
  piece.words.truncate(0);
  piece.first_words.clear();
  return piece;
}

void PiecePipeline::give(ScannedPiece piece) {
  Lock lock(mutex_);
  items_.push_back({std::move(piece)});
  if (has_thread()) {
    changed_.notify_all();
  } else {
    work_on_all(lock);
  }
}

void PiecePipeline::finish() {
  {
    Lock lock(mutex_);
    work_on_all(lock);
  }
  end();
}

void PiecePipeline::serve() {
  Lock lock(mutex_);
  while (!is_ending_ && !failure_) {
    const Task task = next_task();
    if (task.item != nullptr) {
      run(task, lock, 1);
    } else {
      changed_.wait(lock);
    }
  }
}

// The use that is furthest behind comes first, so that pieces get free; then the first piece whose
// words nobody has looked up.
PiecePipeline::Task PiecePipeline::next_task() {
  Task task;
  for (Use& use : uses_) {
    const uint64_t index = use.next - retired_;
    if (use.is_running || index >= items_.size()) continue;
    Item& item = items_[index];
    if (item.stage != Stage::kLookedUp) continue;
    if (task.use == nullptr || use.next < task.use->next) task = {&item, &use};
  }
  if (task.use != nullptr) return task;
  for (Item& item : items_) {
    if (item.stage == Stage::kRead) return {&item, nullptr};
  }
  return {};
}

// Elements of a deque stay where they are meanwhile.
void PiecePipeline::run(const Task& task, Lock& lock, unsigned thread) {
  auto& [item, use] = task;
  if (use != nullptr) {
    use->is_running = true;
  } else {
    item->stage = Stage::kLookingUp;
  }
  lock.unlock();
  std::exception_ptr failure;
  try {
    if (use != nullptr) {
      steps_.uses[static_cast<size_t>(use - uses_.data())](item->piece);
    } else {
      steps_.look_up(item->piece, thread);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (failure && !failure_) failure_ = failure;
  if (use != nullptr) {
    use->is_running = false;
    ++use->next;
    --item->uses_left;
  } else {
    item->stage = Stage::kLookedUp;
  }
  changed_.notify_all();
}

void PiecePipeline::work_or_wait(Lock& lock) {
  const Task task = next_task();
  if (task.item != nullptr) {
    run(task, lock, 0);
  } else {
    changed_.wait(lock);
  }
}

void PiecePipeline::work_on_all(Lock& lock) {
  retire_done(lock);
  while (!items_.empty()) {
    work_or_wait(lock);
    retire_done(lock);
  }
}

// Makes free what both uses are done with. Throws what a step threw on either thread.
void PiecePipeline::retire_done(Lock& lock) {
  while (!items_.empty() && items_.front().uses_left == 0) {
    ScannedPiece piece = std::move(items_.front().piece);
    items_.pop_front();
    ++retired_;
    lock.unlock();
    steps_.retire(piece);
    lock.lock();
    free_.push_back(std::move(piece));
  }
  if (failure_) std::rethrow_exception(failure_);
}

void PiecePipeline::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

}  // namespace heapsnap
