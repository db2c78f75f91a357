#include "platform/linux/inject/injected_mapping.h"

#include <cstring>
#include <span>

#include "base/page.h"
#include "platform/linux/remote_call/sigreturn_stack.h"

namespace heapsnap {

namespace {

constexpr uint64_t kBootstrapStack = 64 << 10;
constexpr uint64_t kWorkerStack = 1 << 20;
constexpr uint64_t kPlainFlags = 0x202;

// All signals but the two that glibc uses among its threads (SIGCANCEL, SIGSETXID): a setuid() in
// another thread waits until every thread has answered.
constexpr uint64_t kWorkerMask = ~(uint64_t{1} << 31 | uint64_t{1} << 32);

// struct pthread_attr (sysdeps/nptl/internaltypes.h); 56 bytes in every glibc.
struct PthreadAttributes {
  int priority = 0;
  int policy = 0;
  int flags = 0x9;  // ATTR_FLAG_DETACHSTATE | ATTR_FLAG_STACKADDR
  uint64_t guard_size = 0;
  uint64_t stack_end = 0;
  uint64_t stack_size = 0;
  uint64_t unused[2]{};
};
static_assert(sizeof(PthreadAttributes) == 56);

uint64_t up_to_page(uint64_t size) {
  return (size + kPage - 1) & ~(kPage - 1);
}

uint64_t up_to_words(uint64_t size) {
  constexpr uint64_t kTwoWords = 16;
  return (size + kTwoWords - 1) & ~(kTwoWords - 1);
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace

InjectedMapping::InjectedMapping(const ThreadControlBlockLayout& layout,
                                 const CallList& worker_calls, size_t attachment_size)
    : layout_(layout), worker_list_(worker_calls) {
  block_ = kCodeSize;
  attributes_ = up_to_words(block_ + sizeof(ThreadBlock));
  initial_variables_ = attributes_ + up_to_words(sizeof(PthreadAttributes));
  bootstrap_calls_ = initial_variables_ + up_to_words(layout.variables.bytes.size());
  worker_calls_ = bootstrap_calls_ + bootstrap_list().size();
  attachment_ = up_to_page(worker_calls_ + worker_calls.size());
  tls_ = up_to_page(attachment_ + attachment_size);
  below_ = up_to_page(bytes_below_thread_pointer(layout));
  thread_pointer_ = tls_ + below_;
  worker_stack_ = thread_pointer_ + kControlBlockSize + kBootstrapStack;
  // The C library takes space for thread-local variables from a new thread's stack.
  size_ = worker_stack_ + kWorkerStack + below_;
}

CallList InjectedMapping::bootstrap_list() const {
  CallList list;
  list.call(CallList::address(layout_.pthread_create),
            {CallList::address(block() + offsetof(ThreadBlock, worker)),
             CallList::address(begin_ + attributes_),
             CallList::address(begin_ + injected_code().worker), CallList::address(block())});
  return list;
}

CallList::Place InjectedMapping::bootstrap_place() const {
  return {begin_ + bootstrap_calls_, {}, {}, {}};
}

CallList::Place InjectedMapping::worker_place() const {
  const InjectedCode code = injected_code();
  return {begin_ + worker_calls_, begin_ + code.copy_text, begin_ + code.rename, attachment()};
}

Address InjectedMapping::worker_calls_word() const {
  return block() + offsetof(ThreadBlock, worker_calls);
}

uint64_t InjectedMapping::worker_calls() const {
  return worker_list_.step_count() == 0 ? 0 : worker_place().begin.value();
}

Address InjectedMapping::creation_result() const {
  return bootstrap_list().result_at(bootstrap_place(), 0);
}

ThreadBlock InjectedMapping::block_for(const CallerControlBlock& caller) const {
  const int64_t variables = layout_.variables.offset;
  ThreadBlock block{};
  block.bootstrap_calls = bootstrap_place().begin.value();
  block.variables = variables;
  block.variable_words = layout_.variables.bytes.size() / sizeof(uint64_t);
  block.bootstrap_variables = (thread_pointer() + static_cast<uint64_t>(variables)).value();
  block.initial_variables = (begin_ + initial_variables_).value();
  block.thread_arena = caller.thread_arena.value_or(0);
  block.main_arena = layout_.main_arena.value();
  block.bootstrap_tid = (thread_pointer() + caller.tid_offset).value();
  block.tid_offset = caller.tid_offset;
  return block;
}

InjectedMapping::Contents InjectedMapping::furnish(const CallerControlBlock& caller,
                                                   const user_regs_struct& like,
                                                   const SyscallGadget& gadget) const {
  Contents contents = furnish_clone(caller, size_ - worker_stack_, like, gadget);
  contents.pieces.emplace_back(begin_ + worker_calls_, worker_list_.encode(worker_place()));
  return contents;
}

InjectedMapping::Contents InjectedMapping::furnish_switch(const CallerControlBlock& caller,
                                                          const user_regs_struct& like,
                                                          const SyscallGadget& gadget) const {
  // allocate_stack() checks the size of the stack before it does anything else.
  constexpr uint64_t kTooSmall = 1;
  return furnish_clone(caller, kTooSmall, like, gadget);
}

InjectedMapping::Contents InjectedMapping::furnish_clone(const CallerControlBlock& caller,
                                                         uint64_t worker_stack_size,
                                                         const user_regs_struct& like,
                                                         const SyscallGadget& gadget) const {
  const InjectedCode code = injected_code();
  const std::vector<std::byte> control_block =
      make_control_block(layout_, caller, thread_pointer(), below_);
  const std::span<const std::byte> initial_variables =
      std::span(control_block)
          .subspan(below_ + static_cast<uint64_t>(layout_.variables.offset),
                   layout_.variables.bytes.size());
  PthreadAttributes attributes;
  attributes.stack_end = (begin_ + size_).value();
  attributes.stack_size = worker_stack_size;

  // The bootstrap's stack begins below the frame that switches to it.
  user_regs_struct entry{};
  entry.cs = like.cs;
  entry.ss = like.ss;
  entry.eflags = kPlainFlags;
  entry.rip = (begin_ + code.bootstrap).value();
  entry.rdi = block().value();
  entry.rsp = (begin_ + worker_stack_).value() - kPage;
  SigreturnStack stack((begin_ + worker_stack_).value(), gadget.restore_rt);

  Contents contents;
  contents.clone_stack = stack.push(entry, kWorkerMask, {});
  contents.pieces = {
      {begin_, {code.bytes.begin(), code.bytes.end()}},
      {block(), bytes_of(block_for(caller))},
      {begin_ + attributes_, bytes_of(attributes)},
      {begin_ + initial_variables_, {initial_variables.begin(), initial_variables.end()}},
      {begin_ + bootstrap_calls_, bootstrap_list().encode(bootstrap_place())},
      {begin_ + tls_, control_block},
      {Address(stack.bottom()), {stack.bytes().begin(), stack.bytes().end()}},
  };
  return contents;
}

}  // namespace heapsnap
