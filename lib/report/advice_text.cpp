#include "report/advice_text.h"

#include <fmt/format.h>

#include "report/number_text.h"

namespace heapsnap {

AdviceText advice_text(const Advice& advice) {
  const std::string size = size_text(advice.bytes);
  switch (advice.kind) {
    case AdviceKind::kTrim:
      return {fmt::format("malloc_trim(0) would give back {}: whole free pages that malloc keeps",
                          size),
              "call malloc_trim(0) in the program, now and then or after it freed much"};
    case AdviceKind::kArenaMax:
      return {fmt::format("{} lie free in arenas of threads ({} for {})", size,
                          count_text(advice.count, "arena", "arenas"),
                          count_text(advice.other_count, "thread", "threads")),
              fmt::format("start the program with MALLOC_ARENA_MAX={}; fewer arenas share what is "
                          "free, at the price of threads that wait for each other",
                          advice.count <= 2 ? 1 : 2)};
    case AdviceKind::kMmapThreshold:
      return {fmt::format("{} lie in {} of 128 KiB and more, behind which chunks are in use; {} of "
                          "that size grew in arenas instead of mappings of their own",
                          size, count_text(advice.count, "free block", "free blocks"),
                          count_text(advice.other_count, "used chunk", "used chunks")),
              "start the program with MALLOC_MMAP_THRESHOLD_=131072: large blocks then go back to "
              "the kernel when they are freed, and the threshold stops growing"};
    case AdviceKind::kTcacheCount:
      return {fmt::format("{} lie free in threads' caches ({})", size,
                          count_text(advice.count, "chunk", "chunks")) +
                  (advice.other_count == 0
                       ? std::string()
                       : fmt::format("; each keeps up to {} a size", advice.other_count)),
              "start the program with GLIBC_TUNABLES=glibc.malloc.tcache_count=2, or let idle "
              "threads end"};
    case AdviceKind::kHugePages:
      return {fmt::format("{} of free memory are resident as parts of huge pages", size),
              "set /sys/kernel/mm/transparent_hugepage/enabled to madvise, or start the program "
              "without glibc.malloc.hugetlb: the kernel then backs only what is touched"};
    case AdviceKind::kFragmentation:
      return {fmt::format("{} are free but share their pages with chunks in use: fragmentation, "
                          "which no trim gives back",
                          size),
              "look for long-lived blocks that are allocated between short-lived ones"};
  }
  return {};
}

}  // namespace heapsnap
