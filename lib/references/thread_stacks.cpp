#include "references/thread_stacks.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "heap/struct_bytes.h"
#include "target/page_cache.h"

namespace heapsnap {

namespace {

constexpr uint64_t kRedZone = 128;  // System V ABI, AMD64 supplement; other machines have none
constexpr uint64_t kControlBlockRoom = 4096;  // sizeof(struct pthread) is 0x900 and less
constexpr uint64_t kLeastStack = 4096;
constexpr uint64_t kLeastFields = 0x100;  // before them are what the ABI fixes and the list
constexpr uint64_t kMostSteps = 4 << 20;  // from link to link, in all

// struct pthread of a thread pointer, with what tells it from other memory.
class ControlBlocks {
 public:
  explicit ControlBlocks(Target& target)
      : target_(target),
        space_(target.address_space()),
        cache_(target.memory(), 256),
        machine_(target.process().machine),
        word_(word_size(machine_)) {}

  std::optional<uint64_t> word(Address at) { return cache_.word(at, word_); }

  // x86 only: the first and the third word of tcbhead_t lead to itself (tcb, self).
  bool is_one(Address place) {
    if (machine_ == Machine::kAarch64 || !place.is_aligned(16)) return false;
    return word(place) == place.value() && word(place + uint64_t{2} * word_) == place.value();
  }

  // The stack of the control block at `thread_pointer`: two words in it, its begin and its size.
  std::optional<AddressRange> stack_of(Address thread_pointer) {
    const bool is_below = machine_ == Machine::kAarch64;
    const Address begin =
        is_below ? thread_pointer - kControlBlockRoom : thread_pointer + kLeastFields;
    std::vector<std::byte> bytes(kControlBlockRoom - (is_below ? 0 : kLeastFields));
    const size_t count = cache_.read(begin, bytes);
    if (is_below && count < bytes.size()) return std::nullopt;
    bytes.resize(count);
    const StructBytes fields(bytes, word_);
    // Those that pthread_create() mapped are of whole pages, those of pthread_attr_setstack() need
    // not be.
    for (const uint64_t alignment : {target_.process().page_size, uint64_t{word_}}) {
      for (uint64_t at = 0; at + uint64_t{2} * word_ <= count; at += word_) {
        const Address first(fields.word_at(at));
        const AddressRange stack{first, first + fields.word_at(at + word_)};
        if (stack.begin.is_aligned(alignment) && stack.end.is_aligned(alignment) &&
            is_stack(stack, thread_pointer)) {
          return stack;
        }
      }
    }
    return std::nullopt;
  }

 private:
  bool is_stack(AddressRange stack, Address thread_pointer) const {
    // What lies above the thread pointer is the control block or, on aarch64, thread-local storage.
    constexpr uint64_t kMostAbove = 1 << 20;
    if (stack.is_empty() || stack.size() < kLeastStack || !stack.contains(thread_pointer) ||
        stack.end - thread_pointer > kMostAbove) {
      return false;
    }
    // Nothing but its guard divides it: mappings without a hole, from the top down.
    constexpr int kMostMappings = 64;
    const Mapping* mapping = space_.find(stack.end - 1);
    if (mapping == nullptr || !mapping->is_private_writable()) return false;
    for (int i = 0; i < kMostMappings; ++i) {
      if (mapping->range.contains(stack.begin)) return true;
      if (mapping == space_.mappings().data()) return false;
      const Mapping* const below = mapping - 1;
      if (below->range.end != mapping->range.begin || !below->is_anonymous()) return false;
      mapping = below;
    }
    return false;
  }

  Target& target_;
  const AddressSpace& space_;
  PageCache cache_;
  Machine machine_;
  unsigned word_;
};

// The rings that control blocks are in.
class ControlBlockRings {
 public:
  ControlBlockRings(Target& target, ControlBlocks& blocks)
      : target_(target), blocks_(blocks), word_(word_size(target.process().machine)) {}

  struct Found {
    std::vector<Address> cached;    // of ended threads, to be used again
    std::vector<Address> unjoined;  // of threads that have ended, or are about to start
  };

  Found find() {
    for (const Thread& thread : target_.threads()) {
      if (!thread.registers) return {};  // which of them lives cannot be told
      if (blocks_.is_one(thread.registers->thread_pointer)) {
        live_.insert(thread.registers->thread_pointer);
      }
    }
    for (const Address block : live_) {
      if (!list_ && !find_list(block)) continue;
      walk(block + *list_);
    }
    Found found;
    // The heads of further rings lie beside those of the rings with live threads.
    const std::vector<Address> heads(heads_.begin(), heads_.end());
    for (const Address head : heads) {
      for (uint64_t at = 0; at <= 2 * kHeadsApart; at += word_) {
        const Address other = head - kHeadsApart + at;
        if (at == kHeadsApart || heads_.contains(other) || seen_.contains(other)) continue;
        if (!is_link(other)) continue;
        const std::vector<Address> members = walk(other);
        for (const Address member : members) {
          if (live_.contains(member)) continue;
          (may_be_joined(member) ? found.unjoined : found.cached).push_back(member);
        }
      }
    }
    for (const Address block : used_) {
      if (!live_.contains(block)) found.unjoined.push_back(block);
    }
    return found;
  }

 private:
  static constexpr uint64_t kHeadsApart = 128;

  bool is_link(Address link) {
    const auto next = blocks_.word(link);
    const auto previous = blocks_.word(link + word_);
    if (!next || !previous || *next == 0 || *previous == 0) return false;
    return blocks_.word(Address(*next) + word_) == link.value() &&
           blocks_.word(Address(*previous)) == link.value();
  }

  bool may_step() {
    if (steps_left_ == 0) return false;
    --steps_left_;
    return true;
  }

  // The kernel clears `tid` at a thread's end, and pthread_join() makes it negative; a detached
  // thread is its own `joinid`.
  bool may_be_joined(Address block) {
    constexpr uint64_t kMostFields = 0x900;
    if (static_cast<int32_t>(blocks_.word(block + *list_ + uint64_t{2} * word_).value_or(0)) != 0) {
      return false;
    }
    for (uint64_t at = *list_ + uint64_t{3} * word_; at < kMostFields; at += word_) {
      if (blocks_.word(block + at) == block.value()) return false;
    }
    return true;
  }

  // Where in a control block its links are (`list`, behind the part that the ABI fixes). The ring
  // also holds a head, which is in no control block.
  bool find_list(Address block) {
    for (uint64_t at = uint64_t{3} * word_; at < 0x400; at += word_) {
      if (!is_link(block + at)) continue;
      size_t heads = 0;
      size_t members = 0;
      Address link = block + at;
      do {
        (blocks_.is_one(link - at) ? members : heads) += 1;
        link = Address(blocks_.word(link).value_or(0));
      } while (link != block + at && may_step() && heads <= 1 && is_link(link));
      if (link == block + at && heads == 1 && members >= 1) {
        list_ = at;
        return true;
      }
    }
    return false;
  }

  // Notes the head of the ring of `link` and gives the control blocks in it; nothing when it is
  // damaged.
  std::vector<Address> walk(Address start) {
    std::vector<Address> members;
    if (seen_.contains(start)) return members;
    std::vector<Address> links;
    Address head;
    Address link = start;
    do {
      if (!is_link(link) || !may_step()) return {};
      links.push_back(link);
      if (blocks_.is_one(link - *list_)) {
        members.push_back(link - *list_);
      } else if (head.is_null()) {
        head = link;
      } else {
        return {};
      }
      link = Address(blocks_.word(link).value_or(0));
    } while (link != start);
    if (head.is_null()) return {};
    seen_.insert(links.begin(), links.end());
    const bool has_live = std::any_of(members.begin(), members.end(),
                                      [this](Address one) { return live_.contains(one); });
    if (has_live) {
      heads_.insert(head);
      used_.insert(used_.end(), members.begin(), members.end());
    }
    return members;
  }

  Target& target_;
  ControlBlocks& blocks_;
  unsigned word_;
  uint64_t steps_left_ = kMostSteps;
  std::unordered_set<Address> live_;
  std::optional<uint64_t> list_;
  std::unordered_set<Address> seen_;   // links
  std::unordered_set<Address> heads_;  // of rings with live threads
  std::vector<Address> used_;          // control blocks in those
};

class StackSearch {
 public:
  explicit StackSearch(Target& target)
      : target_(target),
        space_(target.address_space()),
        blocks_(target),
        red_zone_(target.process().machine == Machine::kX86_64 ? kRedZone : 0) {}

  ThreadStacks find(std::span<const ThreadFrames> frames) {
    for (const Thread& thread : target_.threads()) {
      if (thread.registers) add(thread.tid, *thread.registers);
    }
    for (const ThreadFrames& of_thread : frames) {
      for (const StackFrame& frame : of_thread.frames) pointers_.push_back(frame.begin);
    }
    std::sort(pointers_.begin(), pointers_.end());
    std::sort(found_.stacks.begin(), found_.stacks.end(),
              [](const ThreadStack& a, const ThreadStack& b) { return a.range < b.range; });
    end_at_neighbours();
    for (ThreadStack& stack : found_.stacks) set_live_part(stack);
    add_dead();
    return std::move(found_);
  }

 private:
  void add(int32_t tid, const Registers& registers) {
    const Address sp = registers.stack_pointer;
    const Address tp = registers.thread_pointer;
    pointers_.push_back(sp);
    if (const Mapping* own = space_.find(sp); own != nullptr && own->path == "[stack]") {
      found_.stacks.push_back({tid, {}, own->range, {}});
      // A main thread's control block is not on its stack.
    } else if (const auto known = tp.is_null() ? std::nullopt : blocks_.stack_of(tp)) {
      found_.stacks.push_back({tid, tp, *known, {}});
    } else if (own != nullptr && own->range.contains(tp) && sp < tp) {
      // Of another C library: up to the end of the page that its control block is in.
      const Address end = std::min(
          own->range.end, tp.align_down(target_.process().page_size) + target_.process().page_size);
      found_.stacks.push_back({tid, tp, {own->range.begin, end}, {}});
      guessed_.insert(tid);
    }
  }

  // A stack of which only the end is known reaches down to the stack below it.
  void end_at_neighbours() {
    for (ThreadStack& stack : found_.stacks) {
      if (!guessed_.contains(stack.tid)) continue;
      for (const ThreadStack& other : found_.stacks) {
        if (other.range.end < stack.range.end) {
          stack.range.begin = std::max(stack.range.begin, other.range.end);
        }
      }
    }
    std::sort(found_.stacks.begin(), found_.stacks.end(),
              [](const ThreadStack& a, const ThreadStack& b) { return a.range < b.range; });
  }

  std::optional<Address> lowest_pointer_in(const AddressRange& range) const {
    const auto lowest = std::lower_bound(pointers_.begin(), pointers_.end(), range.begin);
    if (lowest == pointers_.end() || *lowest >= range.end) return std::nullopt;
    return *lowest;
  }

  void set_live_part(ThreadStack& stack) const {
    stack.live = stack.range;
    const auto lowest = lowest_pointer_in(stack.range);
    if (!lowest) return;  // its thread runs elsewhere
    const uint64_t room = *lowest - stack.range.begin;
    stack.live.begin = *lowest - std::min(room, red_zone_);
  }

  void add_dead() {
    const ControlBlockRings::Found rings = ControlBlockRings(target_, blocks_).find();
    for (const Address block : rings.cached) {
      const auto stack = blocks_.stack_of(block);
      if (!stack) continue;
      // The next thread will use its dtv, too.
      const uint64_t head = 2 * word_size(target_.process().machine);
      if (!is_unused(*stack)) continue;
      found_.dead.push_back({stack->begin, block});
      found_.dead.push_back({block + head, stack->end});
    }
    for (const Address block : rings.unjoined) {
      const auto stack = blocks_.stack_of(block);
      if (!stack) continue;
      const AddressRange below{stack->begin, block};
      if (is_unused(below)) found_.dead.push_back(below);
    }
    std::sort(found_.dead.begin(), found_.dead.end());
  }

  bool is_unused(const AddressRange& range) const {
    return !lowest_pointer_in(range) &&
           std::none_of(found_.stacks.begin(), found_.stacks.end(),
                        [&range](const ThreadStack& stack) { return stack.range.overlaps(range); });
  }

  Target& target_;
  const AddressSpace& space_;
  ControlBlocks blocks_;
  uint64_t red_zone_;
  ThreadStacks found_;
  std::vector<Address> pointers_;  // stack pointers, of all frames that are known; ascending
  std::unordered_set<int32_t> guessed_;
};

}  // namespace

ThreadStacks find_thread_stacks(Target& target, std::span<const ThreadFrames> frames) {
  return StackSearch(target).find(frames);
}

}  // namespace heapsnap
