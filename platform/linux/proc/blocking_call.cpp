#include "platform/linux/proc/blocking_call.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

namespace heapsnap {

namespace {

CallBoard::State* board = nullptr;

int own_tid() {
  thread_local const int tid = static_cast<int>(::syscall(SYS_gettid));
  return tid;
}

}  // namespace

BlockingCall::BlockingCall(const char* what) noexcept {
  if (board == nullptr) return;
  board->tid.store(own_tid(), std::memory_order_relaxed);
  board->what.store(what, std::memory_order_relaxed);
  board->count.fetch_add(1, std::memory_order_release);
}

BlockingCall::~BlockingCall() {
  if (board != nullptr) board->count.fetch_add(1, std::memory_order_release);
}

void set_call_patience(std::chrono::milliseconds patience) noexcept {
  if (board != nullptr) board->patience_ms = patience.count();
}

CallBoard::CallBoard() {
  void* const page =
      ::mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  state_ = new (page) State;
}

CallBoard::~CallBoard() {
  if (board == state_) board = nullptr;
  ::munmap(state_, sizeof(State));
}

void CallBoard::use() noexcept {
  board = state_;
}

}  // namespace heapsnap
