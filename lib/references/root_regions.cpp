#include "references/root_regions.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "references/thread_stacks.h"

namespace heapsnap {

namespace {

// Whose a range of memory is. What is claimed first stays.
class RangeClaims {
 public:
  struct Claim {
    Address end;
    bool is_root = false;
    RootRegion region = {};  // without range and mapping
  };

  // Takes of `range` what nobody has yet.
  void add(AddressRange range, const Claim& claim) {
    if (range.is_empty()) return;
    auto next = claims_.upper_bound(range.begin);
    if (next != claims_.begin()) {
      range.begin = std::max(range.begin, std::prev(next)->second.end);
    }
    while (range.begin < range.end) {
      const Address end = next == claims_.end() ? range.end : std::min(range.end, next->first);
      if (range.begin < end) {
        Claim part = claim;
        part.end = end;
        claims_.emplace_hint(next, range.begin, part);
      }
      if (next == claims_.end()) return;
      range.begin = std::max(end, next->second.end);
      ++next;
    }
  }
  void exclude(AddressRange range) { add(range, Claim{}); }
  void add_root(AddressRange range, const RootRegion& region) { add(range, {{}, true, region}); }

  // Calls `visit` with each part of `range` and its claim, nullptr where there is none.
  template <typename Visit>
  void for_each(AddressRange range, Visit visit) const {
    auto next = claims_.upper_bound(range.begin);
    if (next != claims_.begin() && range.begin < std::prev(next)->second.end) --next;
    Address at = range.begin;
    for (; next != claims_.end() && next->first < range.end; ++next) {
      if (at < next->first) visit(AddressRange{at, next->first}, nullptr);
      const AddressRange part{std::max(at, next->first), std::min(next->second.end, range.end)};
      if (!part.is_empty()) visit(part, &next->second);
      at = std::max(at, part.end);
    }
    if (at < range.end) visit(AddressRange{at, range.end}, nullptr);
  }

 private:
  std::map<Address, Claim> claims_;  // by begin, disjoint
};

bool is_of_kernel(const Mapping& mapping) {
  constexpr std::string_view kNames[] = {"[vdso]", "[vsyscall]", "[uprobes]"};
  return mapping.path.starts_with("[vvar") ||
         std::find(std::begin(kNames), std::end(kNames), mapping.path) != std::end(kNames);
}

// Memory of a driver or of the kernel's own interfaces (io_uring, perf): reading it may have
// effects, and it holds no pointers of the program's.
bool is_of_device(const Mapping& mapping) {
  const std::string_view path = mapping.path;
  if (path.starts_with("anon_inode:") || path.starts_with("/[aio]") ||
      path.starts_with("socket:")) {
    return true;
  }
  return path.starts_with("/dev/") && !path.starts_with("/dev/shm/") && path != "/dev/zero" &&
         !path.starts_with("/dev/hugepages/");
}

class RegionSearch {
 public:
  RegionSearch(Target& target, const LoadedModules& modules)
      : target_(target),
        space_(target.address_space()),
        modules_(modules),
        word_(word_size(target.process().machine)) {
    found_.tls = find_module_tls(target, modules);
  }

  void leave_out(const HeapModel& heap, const MemoryTaken& taken) {
    for (const AddressRange& range : taken.mmapped) claims_.exclude(range);
    for (const AddressRange& range : taken.tracker) claims_.exclude(range);
    for (const AddressRange& range : taken.slots) claims_.exclude(range);
    for (const HeapSegment& segment : heap.segments) {
      AddressRange range = segment.range;
      // heap_info and malloc_state before the first chunk take less than a page.
      if (segment.kind == SegmentKind::kThreadHeap)
        range.begin = range.begin.align_down(kLeastPage);
      claims_.exclude(range);
    }
    for (const Arena& arena : heap.arenas) {
      if (arena.instance >= taken.mallocs.size()) continue;
      const MallocLayout& layout = taken.mallocs[arena.instance].layout;
      claims_.exclude({arena.address, arena.address + layout.state.size});
    }
    for (const LocatedMalloc& malloc : taken.mallocs) {
      const Address par = malloc.instance.malloc_par;
      if (!par.is_null()) claims_.exclude({par, par + malloc.layout.par.size});
    }
  }

  void claim_threads(std::span<const ThreadFrames> frames) {
    const ThreadStacks stacks = find_thread_stacks(target_, frames);
    for (const AddressRange& dead : stacks.dead) claims_.exclude(dead);
    for (const ThreadStack& stack : stacks.stacks) {
      claims_.exclude({stack.range.begin, stack.live.begin});
    }
    for (const Thread& thread : target_.threads()) {
      if (thread.registers) claim_storage(thread.tid, thread.registers->thread_pointer, stacks);
    }
    for (const ThreadStack& stack : stacks.stacks) {
      RootRegion region;
      region.kind = RootKind::kStack;
      region.tid = stack.tid;
      claims_.add_root(stack.live, region);
    }
  }

  void claim_modules() {
    for (uint32_t i = 0; i < modules_.all().size(); ++i) {
      RootRegion region;
      region.kind = RootKind::kVariable;
      region.module = i;
      for (const AddressRange& range : modules_.segments(i, PF_W, PF_W)) {
        claims_.add_root(range, region);
      }
    }
  }

  RootRegions take() {
    const auto& mappings = space_.mappings();
    for (uint32_t i = 0; i < mappings.size(); ++i) {
      const Mapping& mapping = mappings[i];
      if (is_of_kernel(mapping) || is_of_device(mapping)) continue;
      // What is private and of no file was written by the process, even where it may not any more.
      const bool is_own = !mapping.shared && (mapping.writable || mapping.is_anonymous() ||
                                              mapping.is_anonymous_hugetlb());
      // The rest is of files: RELRO, and what was written before it was protected.
      const bool may_be_written = !mapping.shared && !is_own;
      // Files that have no name any more are memory that processes share.
      const bool is_shared_memory = mapping.shared && (mapping.writable || mapping.deleted);
      if (!is_own && !may_be_written && !is_shared_memory) continue;
      claims_.for_each(mapping.range, [&](AddressRange part, const RangeClaims::Claim* claim) {
        if (claim != nullptr && !claim->is_root) return;
        const bool is_variable = claim != nullptr && claim->region.kind == RootKind::kVariable;
        const RootRegion region = claim == nullptr ? unclaimed(mapping) : claim->region;
        // What lies in a stack there is the guard, or beside it.
        if (is_own && !mapping.readable) {
          RootRegion unreadable = region.kind == RootKind::kStack ? RootRegion{} : region;
          unreadable.range = part;
          unreadable.mapping = i;
          return unreadable_.push_back(unreadable);
        }
        const bool is_of_module = modules_.find(part.begin) != LoadedModules::kNone;
        if (may_be_written && claim == nullptr && !is_of_module) return add_written(part, i);
        if (may_be_written && (!is_variable || mapping.executable)) return;
        add(part, i, region);
      });
    }
    add_unreadable();
    return std::move(found_);
  }

 private:
  static constexpr uint64_t kLeastPage = 4096;

  // The blocks of thread-local variables, and the control block of the C library beside them.
  void claim_storage(int32_t tid, Address thread_pointer, const ThreadStacks& stacks) {
    if (thread_pointer.is_null()) return;
    RootRegion region;
    region.kind = RootKind::kThreadLocal;
    region.tid = tid;
    region.thread_pointer = thread_pointer;
    AddressRange storage{thread_pointer, thread_pointer};
    for (const StaticTlsBlock& block : found_.tls.blocks) {
      const Address begin = thread_pointer + static_cast<uint64_t>(block.offset);
      storage.begin = std::min(storage.begin, begin);
      storage.end = std::max(storage.end, begin + block.size);
    }
    const AddressRange whole = space_.writable_run(thread_pointer);
    const bool is_below = target_.process().machine == Machine::kAarch64;
    if (is_below) {
      storage.begin = storage.begin - std::min(kControlBlock, storage.begin.value());
    } else {
      storage.end = std::max(storage.end, thread_pointer + kControlBlock);
    }
    for (const ThreadStack& stack : stacks.stacks) {
      if (stack.control != thread_pointer) continue;
      if (!is_below) storage.end = stack.range.end;
      storage.begin = std::max(storage.begin, stack.live.begin);
    }
    storage.begin = std::max(storage.begin, whole.begin);
    storage.end = std::min(storage.end, whole.end);
    claims_.add_root(storage, region);
  }

  RootRegion unclaimed(const Mapping& mapping) const {
    RootRegion region;
    if (mapping.path == "[stack]") {
      region.kind = RootKind::kStack;
      region.tid = target_.process().pid;
    }
    return region;
  }

  void add(AddressRange range, uint32_t mapping, RootRegion region) {
    range = {range.begin.align_up(word_), range.end.align_down(word_)};
    if (range.is_empty()) return;
    region.range = range;
    region.mapping = mapping;
    region.is_shared = space_.mappings()[mapping].shared;
    found_.regions.push_back(region);
  }

  // The smallest first: where the kernel tells of single pages only (before Linux 6.7), a large
  // reservation takes all that may be asked for.
  void add_unreadable() {
    std::stable_sort(unreadable_.begin(), unreadable_.end(),
                     [](const auto& a, const auto& b) { return a.range.size() < b.range.size(); });
    for (const RootRegion& one : unreadable_) add_present(one);
    std::stable_sort(found_.regions.begin(), found_.regions.end(),
                     [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
  }

  // Of memory that may not be read (mprotect(2), or only reserved), what is there: the kernel reads
  // it for a tracer.
  void add_present(const RootRegion& region) {
    PageResidency& residency = target_.residency();
    const uint64_t page = residency.page_size();
    AddressRange range{region.range.begin.align_up(page), region.range.end.align_down(page)};
    if (!residency.knows_pages()) return add_dumped(range, region);
    const auto is_there = [](PageState state) {
      return state != PageState::kAbsent && state != PageState::kUnknown;
    };
    // So few are asked for after a leap: there may be another one to come.
    constexpr uint64_t kFewPages = 16;
    uint64_t window = kFewPages;
    while (range.begin < range.end) {
      const Address present = residency.absent_until(range);
      window = present > range.begin ? kFewPages : std::min(2 * window, kPagesAtOnce);
      const uint64_t pages =
          std::min({(range.end - present) / page, window, unreadable_pages_left_});
      range.begin = present;
      if (pages == 0) break;
      unreadable_pages_left_ -= pages;
      range.begin = add_pages({present, present + pages * page}, is_there, region.mapping, region);
    }
    found_.bytes_left_out += range.size();
  }

  void add_dumped(AddressRange range, const RootRegion& region) {
    while (range.begin < range.end) {
      const AddressRange dumped = target_.memory().next_readable(range);
      if (dumped.is_empty()) return;
      add({std::max(range.begin, dumped.begin), std::min(range.end, dumped.end)}, region.mapping,
          region);
      range.begin = dumped.end;
    }
  }

  // Of a mapping of a file, the pages that the process has a copy of its own of.
  void add_written(AddressRange range, uint32_t mapping) {
    const uint64_t page = target_.residency().page_size();
    if (!range.begin.is_aligned(page) || range.size() / page > pages_left_) return;
    const auto is_written = [](PageState state) {
      return state == PageState::kResident || state == PageState::kSwapped;
    };
    range.end = range.begin + range.size() / page * page;
    pages_left_ -= range.size() / page;
    add_pages(range, is_written, mapping, {});
  }

  // Of whole pages, those whose state is as wanted. Returns the end of `range`.
  template <typename Wanted>
  Address add_pages(AddressRange range, Wanted is_wanted, uint32_t mapping,
                    const RootRegion& region) {
    const uint64_t page = target_.residency().page_size();
    std::vector<PageState> states(range.size() / page);
    target_.residency().read(range.begin, states);
    for (uint64_t first = 0; first < states.size();) {
      uint64_t end = first + 1;
      while (end < states.size() && is_wanted(states[end]) == is_wanted(states[first])) ++end;
      if (is_wanted(states[first])) {
        add({range.begin + first * page, range.begin + end * page}, mapping, region);
      }
      first = end;
    }
    return range.end;
  }

  // Bytes of struct pthread (x86-64, 2.36), where the stack above does not tell.
  static constexpr uint64_t kControlBlock = 0x900;

  Target& target_;
  const AddressSpace& space_;
  const LoadedModules& modules_;
  unsigned word_;
  RangeClaims claims_;
  RootRegions found_;
  std::vector<RootRegion> unreadable_;  // of which what is there is to be found
  static constexpr uint64_t kPagesAtOnce = 4096;
  uint64_t pages_left_ = 1 << 18;  // of mappings of files to ask for: large ones are data
  // 16 GiB. Of a run that the kernel tells to be absent (PAGEMAP_SCAN), few are asked for.
  uint64_t unreadable_pages_left_ = 1 << 22;
};

}  // namespace

RootRegions find_root_regions(Target& target, const LoadedModules& modules, const HeapModel& heap,
                              const MemoryTaken& taken, std::span<const ThreadFrames> frames) {
  RegionSearch search(target, modules);
  search.leave_out(heap, taken);
  search.claim_threads(frames);
  search.claim_modules();
  return search.take();
}

std::vector<RegisterWord> register_words(const Target& target) {
  std::vector<RegisterWord> words;
  const unsigned count = general_register_count(target.process().machine);
  for (const Thread& thread : target.threads()) {
    if (!thread.registers) continue;
    const Registers& registers = *thread.registers;
    if (registers.general.are_known) {
      for (unsigned i = 0; i < count; ++i) {
        words.push_back({thread.tid, i, registers.general.values.at(i)});
      }
    }
    words.push_back({thread.tid, RegisterWord::kThreadPointer, registers.thread_pointer.value()});
    if (registers.other_base != 0) {
      words.push_back({thread.tid, RegisterWord::kOtherBase, registers.other_base});
    }
    for (const uint64_t word : registers.vector) {
      words.push_back({thread.tid, RegisterWord::kVector, word});
    }
  }
  return words;
}

}  // namespace heapsnap
