#include "platform/linux/thread_workbench.h"

#include <cstring>

#include "platform/linux/injected_code.h"
#include "platform/linux/sigreturn_stack.h"

namespace heapsnap {

namespace {

constexpr uint64_t kPage = 4096;
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

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace

ThreadWorkbench::ThreadWorkbench(const ThreadRecipe& recipe, const CallList& worker_calls)
    : recipe_(recipe), worker_list_(worker_calls) {
  block_ = kCodeSize;
  attributes_ = block_ + 64;
  path_ = attributes_ + 64;
  bootstrap_calls_ = path_ + kPathSize;
  worker_calls_ = bootstrap_calls_ + bootstrap_list().size();
  tls_ = up_to_page(worker_calls_ + worker_calls.size());
  below_ = up_to_page(bytes_below_thread_pointer(recipe));
  thread_pointer_ = tls_ + below_;
  worker_stack_ = thread_pointer_ + kControlBlockSize + kBootstrapStack;
  // The C library takes room for thread-local variables from a new thread's stack.
  size_ = worker_stack_ + kWorkerStack + below_;
}

CallList ThreadWorkbench::bootstrap_list() const {
  CallList list;
  list.call(CallList::address(recipe_.pthread_create),
            {CallList::address(block() + offsetof(ThreadBlock, worker)),
             CallList::address(begin_ + attributes_),
             CallList::address(begin_ + injected_code().worker), CallList::address(block())});
  return list;
}

CallList::Place ThreadWorkbench::bootstrap_place() const {
  return {begin_ + bootstrap_calls_, {}, 0, {}};
}

CallList::Place ThreadWorkbench::worker_place(uint64_t file) const {
  return {begin_ + worker_calls_, begin_ + injected_code().copy_text, file, path()};
}

Address ThreadWorkbench::creation_result() const {
  return bootstrap_list().result_at(bootstrap_place(), 0);
}

ThreadWorkbench::Contents ThreadWorkbench::furnish(const DonorControlBlock& donor, uint64_t file,
                                                   const user_regs_struct& like,
                                                   const SyscallGadget& gadget) const {
  const InjectedCode code = injected_code();
  ThreadBlock thread_block{};
  thread_block.bootstrap_calls = bootstrap_place().begin.value();
  thread_block.worker_calls = worker_list_.step_count() == 0 ? 0 : worker_place(file).begin.value();
  PthreadAttributes attributes;
  attributes.stack_end = (begin_ + size_).value();
  attributes.stack_size = size_ - worker_stack_;

  // The stack that the bootstrap is to have begins below the frame that takes it there.
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
      {block(), bytes_of(thread_block)},
      {begin_ + attributes_, bytes_of(attributes)},
      {begin_ + bootstrap_calls_, bootstrap_list().encode(bootstrap_place())},
      {begin_ + worker_calls_, worker_list_.encode(worker_place(file))},
      {begin_ + tls_, make_control_block(recipe_, donor, thread_pointer(), below_)},
      {Address(stack.bottom()), {stack.bytes().begin(), stack.bytes().end()}},
  };
  return contents;
}

}  // namespace heapsnap
