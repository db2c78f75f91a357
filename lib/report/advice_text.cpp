#include "report/advice_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/number_text.h"

namespace heapsnap {

namespace {

// " (all of it also by 1)", " (up to 1.5 MiB of it also by 1 and 2)": what other items free as
// well.
std::string overlap_text(const Advice& advice) {
  if (advice.overlap == 0) return {};
  std::string others;
  for (size_t i = 0; i < advice.overlaps.size(); ++i) {
    if (i != 0) others += i + 1 == advice.overlaps.size() ? " and " : ", ";
    others += fmt::format("{}", advice.overlaps[i] + 1);
  }
  const bool is_exact = advice.saves_least == advice.saves_most;
  if (advice.of_its_own() == 0) {
    return fmt::format(" ({}all of it also by {})", is_exact ? "" : "up to ", others);
  }
  return fmt::format(" ({}{} of it also by {})", is_exact ? "" : "up to ",
                     size_text(advice.overlap), others);
}

// Of a finding that nothing is foretold of.
std::string counted_text(const Advice& advice) {
  if (advice.overlap == 0) return {};
  if (advice.of_its_own() == 0) return "; they are counted above, too";
  return fmt::format("; {} of them are counted above, too", size_text(advice.overlap));
}

// "about 64.0 MiB", "up to 64.0 MiB" where it is not known what is resident.
std::string saving_text(const Advice& advice) {
  return (advice.saves_least == advice.saves_most ? "about " : "up to ") +
         size_text(advice.saves_most);
}

AdviceText trim_text(const Advice& advice, const SnapshotMetadata& metadata) {
  const bool is_live = metadata.freeze.method != FreezeMethod::kCore;
  const std::string lasting = "call malloc_trim(0) in the program after it freed much";
  const std::string now = fmt::format("heapsnap trim {} does it once", metadata.process.pid);
  return {fmt::format("malloc_trim(0) would give back {}{}: whole free pages that malloc keeps",
                      advice.saves_least == advice.saves_most ? size_text(advice.bytes)
                                                              : saving_text(advice),
                      overlap_text(advice)),
          (is_live ? now + "; to keep it low, " : "") + lasting};
}

}  // namespace

AdviceText advice_text(const Advice& advice, const SnapshotMetadata& metadata) {
  const std::string size = size_text(advice.bytes);
  switch (advice.kind) {
    case AdviceKind::kTrim: return trim_text(advice, metadata);
    case AdviceKind::kArenaMax:
      return {fmt::format("{} lie free in arenas of threads ({} for {}), where no other arena can "
                          "use them",
                          size, count_text(advice.count, "arena", "arenas"),
                          count_text(advice.other_count, "thread", "threads")),
              fmt::format("start the program with MALLOC_ARENA_MAX={}: saves nothing where all "
                          "threads need it at the same time, and about {} where they need it one "
                          "after the other{}; threads then wait for each other",
                          arenas_advised(advice.count), size_text(advice.saves_most),
                          overlap_text(advice))};
    case AdviceKind::kMmapThreshold:
      return {
          fmt::format("{} lie in {} of the sizes of large blocks that are in use behind them: "
                      "{} of 128 KiB and more grew in arenas instead of mappings of their own",
                      size, count_text(advice.count, "free block", "free blocks"),
                      count_text(advice.other_count, "used chunk", "used chunks")),
          fmt::format("start the program with MALLOC_MMAP_THRESHOLD_=131072: saves {}{}; blocks "
                      "of 128 KiB and more then go back to the kernel when they are freed, at "
                      "the price of two system calls for each",
                      saving_text(advice), overlap_text(advice))};
    case AdviceKind::kTcacheCount:
      return {fmt::format("{} lie free in threads' caches ({})", size,
                          count_text(advice.count, "chunk", "chunks")) +
                  (advice.other_count == 0
                       ? std::string()
                       : fmt::format("; each keeps up to {} a size", advice.other_count)),
              "let idle threads end, or start the program with "
              "GLIBC_TUNABLES=glibc.malloc.tcache_count=2 and compare: the chunks then go to the "
              "arenas, and how many whole pages come free there cannot be foretold"};
    case AdviceKind::kFragmentation:
      return {fmt::format("{} are free but share their pages with chunks in use: fragmentation, "
                          "which no trim gives back{}",
                          size, counted_text(advice)),
              "look for long-lived blocks that are allocated between short-lived ones"};
  }
  return {};
}

}  // namespace heapsnap
