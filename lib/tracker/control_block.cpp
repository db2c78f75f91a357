#include "tracker/control_block.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "tracker/arch_x86_64.h"
#include "tracker/control.h"

namespace heapsnap::tracker {

namespace {

constexpr uint64_t kTid = 0x2d0;         // struct pthread::tid
constexpr uint64_t kSearched = 0x800;    // no struct pthread is smaller
constexpr uint32_t kNoTid = 0xffffffff;  // glibc before 2.25 puts it there in clone(CLONE_VM)
uint32_t is_tid_known = 0;

enum class WordState { kEqual, kOther, kUnreadable, kUnknown };

// Compares in the kernel, which reads what may be unmapped at any moment. With nobody to wake and
// nobody to move FUTEX_CMP_REQUEUE does nothing else.
WordState compare_word(uint64_t address, uint32_t expected) {
  const auto word = static_cast<long>(address);
  const long result = system_call(SYS_futex, word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 0,
                                  word, static_cast<long>(expected));
  if (result == 0) return WordState::kEqual;
  if (result == -EAGAIN) return WordState::kOther;
  return result == -EFAULT ? WordState::kUnreadable : WordState::kUnknown;
}

template <typename T>
T word_at(uint64_t address) {
  return *reinterpret_cast<const volatile T*>(address);
}

// The ABI has the first word of a block hold its own address, glibc the third one as well.
bool has_own_block(uint64_t pointer) {
  return word_at<uint64_t>(pointer + 16) == pointer;
}

}  // namespace

void learn_control_blocks(uint32_t own_tid) {
  const uint64_t pointer = thread_pointer();
  const bool is_here = has_own_block(pointer) && word_at<uint32_t>(pointer + kTid) == own_tid;
  if (is_here) store(is_tid_known, 1);
}

ThreadIdentity own_identity() {
  const uint64_t pointer = thread_pointer();
  if (load(is_tid_known) != 0 && has_own_block(pointer)) {
    const auto tid = word_at<uint32_t>(pointer + kTid);
    if (tid != 0 && tid != kNoTid) return {tid, pointer + kTid};
  }
  return {static_cast<uint32_t>(system_call(SYS_gettid)), 0};
}

bool may_live(uint64_t tid_word, uint32_t tid) {
  const WordState state = compare_word(tid_word, tid);
  if (state != WordState::kOther) return state != WordState::kUnreadable;
  const WordState overwritten = compare_word(tid_word, kNoTid);
  return overwritten == WordState::kEqual || overwritten == WordState::kUnknown;
}

// glibc keeps begin and size side by side (struct pthread::stackblock).
uint64_t own_stack_begin(uint64_t sp) {
  const uint64_t pointer = thread_pointer();
  if (load(is_tid_known) == 0 || !has_own_block(pointer)) return 0;
  for (uint64_t at = pointer; at < pointer + kSearched; at += sizeof(uint64_t)) {
    const auto begin = word_at<uint64_t>(at);
    const auto size = word_at<uint64_t>(at + sizeof(uint64_t));
    const bool is_stack = begin != 0 && begin % kPage == 0 && size % kPage == 0 && begin <= sp &&
                          sp < pointer && pointer - begin < size;
    if (is_stack) return begin;
  }
  return 0;
}

bool is_word_equal(uint64_t address, uint32_t value) {
  return compare_word(address, value) == WordState::kEqual;
}

bool is_word_readable(uint64_t address) {
  const WordState state = compare_word(address, 0);
  return state == WordState::kEqual || state == WordState::kOther;
}

}  // namespace heapsnap::tracker
