// The one mapping of the target that holds all that an injected thread and its bootstrap need:
//
//   code | block, attributes, path, call lists | tls, control block | stacks: bootstrap's, worker's
//
// The first page is executable, the others are writable. Offsets are from its begin.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/address.h"
#include "platform/linux/call_list.h"
#include "platform/linux/syscall_gadget.h"
#include "platform/linux/thread_recipe.h"

namespace heapsnap {

class ThreadWorkbench {
 public:
  static constexpr uint64_t kCodeSize = 4096;
  static constexpr size_t kPathSize = 128;

  ThreadWorkbench(const ThreadRecipe& recipe, const CallList& worker_calls);

  uint64_t size() const { return size_; }
  void set_begin(Address begin) { begin_ = begin; }
  Address begin() const { return begin_; }

  Address block() const { return begin_ + block_; }  // a ThreadBlock
  Address path() const { return begin_ + path_; }    // kPathSize bytes
  Address thread_pointer() const { return begin_ + thread_pointer_; }
  // Result of the bootstrap's pthread_create: an errno.
  Address creation_result() const;
  // For the worker's calls, when descriptor `file` is the file given with them.
  CallList::Place worker_place(uint64_t file) const;

  // What to write where before the clone, and the stack pointer that the clone gets. `like` are
  // registers of a thread of the target.
  struct Contents {
    std::vector<std::pair<Address, std::vector<std::byte>>> pieces;
    uint64_t clone_stack = 0;
  };
  Contents furnish(const DonorControlBlock& donor, uint64_t file, const user_regs_struct& like,
                   const SyscallGadget& gadget) const;

 private:
  CallList bootstrap_list() const;
  CallList::Place bootstrap_place() const;

  const ThreadRecipe& recipe_;
  const CallList& worker_list_;
  Address begin_;
  uint64_t block_ = 0;
  uint64_t attributes_ = 0;
  uint64_t path_ = 0;
  uint64_t bootstrap_calls_ = 0;
  uint64_t worker_calls_ = 0;
  uint64_t tls_ = 0;
  uint64_t below_ = 0;  // bytes from tls_ to the thread pointer
  uint64_t thread_pointer_ = 0;
  uint64_t worker_stack_ = 0;  // where it begins and the bootstrap's ends
  uint64_t size_ = 0;
};

}  // namespace heapsnap
