// Calls in which heapsnap may block in the kernel forever, and the process that watches for that.
//
// A read of a page that a userfaultfd(2) handler or a user-space file system has to fill sleeps
// until the page is there. Only SIGKILL ends that sleep, and no other thread can do anything about
// it. So heapsnap does its work in a child process, and the parent watches a page that both share:
//
//   child    | enters | process_vm_readv ...            | leaves |
//   parent            | same call as last time? ... ... | SIGKILL, and says why
//
// When the child dies, the kernel detaches it from the target (ptrace(2)).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace heapsnap {

// Brackets one such call. Costs two stores, or nothing if no process is watching. One at a time per
// process: while the tracing thread works, the others wait for it. Of work that it was only made to
// begin (TracerThread::start()), the wait for its end is the call.
class BlockingCall {
 public:
  explicit BlockingCall(const char* what) noexcept;
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;
  ~BlockingCall();
};

inline constexpr const char* kWorkOfCopy = "work of the copy of the process";

// How long such a call may take: the value of `--deadline`.
void set_call_patience(std::chrono::milliseconds patience) noexcept;

// What the watching process sees.
class CallBoard {
 public:
  struct State {
    std::atomic<uint64_t> count{0};  // odd: inside a call
    std::atomic<int> tid{0};
    std::atomic<const char*> what{nullptr};  // a string literal, so at the same address in both
    std::atomic<int64_t> patience_ms{2000};
  };

  // A page shared with child processes. Throws std::bad_alloc.
  CallBoard();
  CallBoard(const CallBoard&) = delete;
  CallBoard& operator=(const CallBoard&) = delete;
  ~CallBoard();

  // From now on, records the calls of this process on this board.
  void use() noexcept;
  const State& state() const { return *state_; }

 private:
  State* state_;
};

}  // namespace heapsnap
