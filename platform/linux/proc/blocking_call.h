// Calls in which heapsnap may wait in the kernel for somebody who never answers, and who watches
// them.
//
// Who reads a page of the target that is to be filled by a reader of userfaultfd(2), or by a file
// system in user space, sleeps until it is there. No signal ends that sleep but SIGKILL, and no
// other thread can do anything about it. So heapsnap does its work in a child process, and the
// parent looks at a page that both share:
//
//   child    | enters | process_vm_readv ...            | leaves |
//   parent            | same call as last time? ... ... | SIGKILL, and says why
//
// When the child dies, ptrace(2) lets the target go.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace heapsnap {

// Brackets one such call. Costs two stores; nothing where nobody watches. One at a time in the
// process: while the tracing thread works, others wait for it.
class BlockingCall {
 public:
  explicit BlockingCall(const char* what) noexcept;
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;
  ~BlockingCall();
};

// How long one may take: what `--deadline` says.
void set_call_patience(std::chrono::milliseconds patience) noexcept;

// What the watching process sees.
class CallBoard {
 public:
  struct State {
    std::atomic<uint64_t> count{0};  // odd: inside of a call
    std::atomic<int> tid{0};
    std::atomic<const char*> what{nullptr};  // of the program, so the same in both
    std::atomic<int64_t> patience_ms{2000};
  };

  // A page that children share. Throws std::bad_alloc.
  CallBoard();
  CallBoard(const CallBoard&) = delete;
  CallBoard& operator=(const CallBoard&) = delete;
  ~CallBoard();

  // From here on calls of this process are entered on it.
  void use() noexcept;
  const State& state() const { return *state_; }

 private:
  State* state_;
};

}  // namespace heapsnap
