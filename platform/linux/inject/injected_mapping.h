// The one mapping in the target that holds all that an injected thread and its bootstrap need:
//
//   code | block, attributes, call lists | attachment | variables, control block | two stacks
//
// The first page is executable, the others are writable. Offsets are from its beginning. The
// attachment is data for the worker's calls, a library for instance; it is written last, and only
// when it is there are the calls handed to the worker: one that finds none has nothing to do.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/address.h"
#include "platform/linux/inject/call_list.h"
#include "platform/linux/inject/injected_code.h"
#include "platform/linux/inject/thread_control_block.h"
#include "platform/linux/remote_call/syscall_gadget.h"

namespace heapsnap {

class InjectedMapping {
 public:
  static constexpr uint64_t kCodeSize = 4096;

  InjectedMapping(const ThreadControlBlockLayout& layout, const CallList& worker_calls,
                  size_t attachment_size);

  uint64_t size() const { return size_; }
  void set_begin(Address begin) { begin_ = begin; }
  Address begin() const { return begin_; }

  Address block() const { return begin_ + block_; }  // a ThreadBlock
  Address attachment() const { return begin_ + attachment_; }
  Address thread_pointer() const { return begin_ + thread_pointer_; }
  // Result of the bootstrap's pthread_create: an errno.
  Address creation_result() const;
  // Where the worker's calls are.
  CallList::Place worker_place() const;
  // The word of the block that names them, null until then, and the value that it is to get.
  Address worker_calls_word() const;
  uint64_t worker_calls() const;

  // What to write where before the clone, and the stack pointer for the clone. `like` are registers
  // of a thread of the target.
  struct Contents {
    std::vector<std::pair<Address, std::vector<std::byte>>> pieces;
    uint64_t clone_stack = 0;
  };
  Contents furnish(const CallerControlBlock& caller, const user_regs_struct& like,
                   const SyscallGadget& gadget) const;
  // The same for a clone whose pthread_create is refused: from then on the C library allows for
  // other threads, though there are none.
  Contents furnish_switch(const CallerControlBlock& caller, const user_regs_struct& like,
                          const SyscallGadget& gadget) const;

 private:
  ThreadBlock block_for(const CallerControlBlock& caller) const;
  Contents furnish_clone(const CallerControlBlock& caller, uint64_t worker_stack_size,
                         const user_regs_struct& like, const SyscallGadget& gadget) const;
  CallList bootstrap_list() const;
  CallList::Place bootstrap_place() const;

  const ThreadControlBlockLayout& layout_;
  const CallList& worker_list_;
  Address begin_;
  uint64_t block_ = 0;
  uint64_t attributes_ = 0;
  uint64_t initial_variables_ = 0;
  uint64_t bootstrap_calls_ = 0;
  uint64_t worker_calls_ = 0;
  uint64_t attachment_ = 0;
  uint64_t tls_ = 0;
  uint64_t below_ = 0;  // bytes from tls_ to the thread pointer
  uint64_t thread_pointer_ = 0;
  uint64_t worker_stack_ = 0;  // where it begins and the bootstrap's ends
  uint64_t size_ = 0;
};

}  // namespace heapsnap
