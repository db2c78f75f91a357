#include "report/advice_text.h"

#include <fmt/format.h>

#include "report/number_text.h"
#include "report/shell_word.h"

namespace heapsnap {

namespace {

// "1", "1 and 2", "1, 2 and 3": items as they are numbered for people.
std::string numbers_text(const std::vector<size_t>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) text += i + 1 == items.size() ? " and " : ", ";
    text += fmt::format("{}", items[i] + 1);
  }
  return text;
}

// " (all of it also counted in 1)", " (up to 1.5 MiB of it also counted in 1 and 2)": the overlap
// with the savings of other items.
std::string overlap_text(const Advice& advice) {
  if (advice.overlap == 0) return {};
  const std::string others = numbers_text(advice.overlaps);
  const bool is_exact = advice.saves_least == advice.saves_most;
  if (advice.of_its_own() == 0) {
    return fmt::format(" ({}also counted in {})", is_exact ? "all of it " : "", others);
  }
  return fmt::format(" ({}{} of it also counted in {})", is_exact ? "" : "up to ",
                     size_text(advice.overlap), others);
}

// Of a finding for which no saving can be predicted.
std::string counted_text(const Advice& advice) {
  if (advice.overlap == 0) return {};
  if (advice.of_its_own() == 0) return "; all of it is counted above";
  return fmt::format("; {} of it is counted above", size_text(advice.overlap));
}

// "about 64.0 MiB", "between 0 and 64.0 MiB" where a snapshot does not tell.
std::string range_text(uint64_t least, uint64_t most) {
  if (size_text(least) == size_text(most)) return "about " + size_text(most);
  return fmt::format("between {} and {}", least == 0 ? "0" : size_text(least), size_text(most));
}
std::string saving_text(const Advice& advice) {
  return range_text(advice.saves_least, advice.saves_most);
}

AdviceText trim_text(const Advice& advice, const SnapshotMetadata& metadata) {
  const bool is_live = metadata.freeze.method != FreezeMethod::kCore;
  const std::string lasting = "call malloc_trim(0) in the program after it has freed a lot";
  const std::string now = fmt::format("heapsnap trim {} does it once", pid_word(metadata.process));
  return {fmt::format("malloc_trim(0) would give back {}{} in whole free pages",
                      advice.saves_least == advice.saves_most ? size_text(advice.bytes)
                                                              : saving_text(advice),
                      overlap_text(advice)),
          (is_live ? now + "; to keep it low, " : "") + lasting};
}

AdviceText arena_max_text(const Advice& advice) {
  return {fmt::format("{} is free in thread arenas, where no other arena can use it ({} for {})",
                      size_text(advice.bytes), count_text(advice.count, "arena", "arenas"),
                      count_text(advice.other_count, "thread", "threads")),
          fmt::format("start the program with MALLOC_ARENA_MAX={}: saves {}{}, depending on "
                      "how many of its threads need their memory at the same time; threads then "
                      "contend for the arenas",
                      arenas_advised(advice.count), saving_text(advice), overlap_text(advice))};
}

AdviceText mmap_threshold_text(const Advice& advice) {
  return {
      fmt::format("{} is free in {} as large as blocks in use: {} of 128 KiB or more {} "
                  "allocated in arenas instead of mappings of {} own",
                  size_text(advice.bytes), count_text(advice.count, "chunk", "chunks"),
                  count_text(advice.other_count, "block", "blocks"),
                  advice.other_count == 1 ? "was" : "were",
                  advice.other_count == 1 ? "its" : "their"),
      fmt::format("start the program with MALLOC_MMAP_THRESHOLD_=131072: saves {}{}; a block of "
                  "128 KiB or more then goes back to the kernel when it is freed, at the cost "
                  "of two system calls",
                  saving_text(advice), overlap_text(advice))};
}

AdviceText tcache_text(const Advice& advice) {
  return {fmt::format("{} is free in thread caches ({})", size_text(advice.bytes),
                      count_text(advice.count, "chunk", "chunks")) +
              (advice.other_count == 0
                   ? std::string()
                   : fmt::format("; each keeps up to {} of a size",
                                 count_text(advice.other_count, "chunk", "chunks"))),
          "let idle threads end, or start the program with "
          "GLIBC_TUNABLES=glibc.malloc.tcache_count=2 and compare: the chunks then go back to the "
          "arenas; how many whole pages that frees cannot be predicted"};
}

}  // namespace

AdviceText advice_text(const Advice& advice, const SnapshotMetadata& metadata,
                       const std::string& snapshot_path) {
  switch (advice.kind) {
    case AdviceKind::kTrim: return trim_text(advice, metadata);
    case AdviceKind::kArenaMax: return arena_max_text(advice);
    case AdviceKind::kMmapThreshold: return mmap_threshold_text(advice);
    case AdviceKind::kTcacheCount: return tcache_text(advice);
    case AdviceKind::kFragmentation:
      return {fmt::format("{} is free but shares pages with chunks in use: fragmentation, which "
                          "malloc_trim(0) cannot give back{}",
                          size_text(advice.bytes), counted_text(advice)),
              fmt::format("look for long-lived blocks allocated between short-lived ones: heapsnap "
                          "render {} -o heap.png draws where they lie",
                          shell_word(snapshot_path, "FILE"))};
    case AdviceKind::kPythonPools:
      return {fmt::format("{} is free in Python's arenas ({}); an arena goes back to the system "
                          "only when no object is left in it",
                          size_text(advice.bytes), count_text(advice.count, "arena", "arenas")),
              "do what needs much memory for a while in a process of its own (multiprocessing with "
              "maxtasksperchild), or start the program with PYTHONMALLOC=malloc, where "
              "malloc_trim(0) gives back whole free pages"};
  }
  return {};
}

std::string together_text(const SavedTogether& together) {
  if (together.items.empty()) return {};
  return fmt::format(
      "Together, {} save {}: memory that more than one of them would free is counted once",
      numbers_text(together.items), range_text(together.least, together.most));
}

}  // namespace heapsnap
