#include "report/mapping_group_text.h"

#include <fmt/format.h>

#include "report/number_text.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// "8 of 4.0 MiB", "1 mapping", "23 mappings".
std::string count_of(const MappingGroup& group) {
  if (group.size == 0) return count_text(group.count, "mapping", "mappings");
  return count_text(group.count) + " of " + size_text(group.size);
}

std::string cut_text(const MappingGroup& group, const char* cut) {
  return fmt::format("{} is mapped, and {} multiples of {}.", printable(group.evidence), cut,
                     size_text(group.unit));
}

}  // namespace

std::string mapping_group_label(const MappingGroup& group) {
  switch (group.kind) {
    case MappingKind::kNamed:
      return printable(group.name) +
             (group.count == 1 ? "" : ", " + count_text(group.count, "mapping", "mappings"));
    case MappingKind::kHugePages: return count_of(group) + ", hugetlb pages";
    case MappingKind::kCode: return count_of(group) + ", executable: like JIT code";
    case MappingKind::kStacks: return count_of(group) + ", like stacks";
    case MappingKind::kPython: return count_of(group) + ", like pymalloc arenas";
    case MappingKind::kRuby: return count_of(group) + ", like Ruby's heap";
    case MappingKind::kV8: return count_of(group) + ", like V8's heap";
    case MappingKind::kJava: return count_of(group) + ", like the JVM's heap";
    case MappingKind::kAllocator:
      return count_of(group) + ", probably " + printable(group.evidence) + "'s";
    case MappingKind::kSameSize: return count_of(group) + ", like arenas";
    case MappingKind::kLarge: return count_of(group);
    case MappingKind::kFile:
      if (group.name.empty()) return "without a name";
      // Where mmap(2) with MAP_SHARED and MAP_ANONYMOUS has its pages.
      if (group.name == "/dev/zero") return "/dev/zero (anonymous shared memory)";
      return printable(group.name);
    case MappingKind::kOthers: return count_text(group.count, "other", "others");
  }
  return {};
}

std::string mapping_group_evidence(const MappingGroup& group) {
  switch (group.kind) {
    case MappingKind::kStacks:
      return "Like stacks: they begin above a guard page and are as large as stacks, but no thread "
             "is known to run on them. Threads that have ended leave such mappings; fibers use "
             "them.";
    case MappingKind::kPython: return "Like pymalloc arenas: " + cut_text(group, "their sizes are");
    case MappingKind::kRuby: return "Like Ruby's heap: " + cut_text(group, "they begin and end at");
    case MappingKind::kV8: return "Like V8's heap: " + cut_text(group, "they begin at");
    case MappingKind::kJava: return "Like the JVM's heap: " + cut_text(group, "they begin at");
    case MappingKind::kSameSize:
      return fmt::format(
          "Like arenas: {} of the same size ({}), which is how custom allocators map memory.",
          count_text(group.count, "mapping", "mappings"), size_text(group.size));
    default: return {};
  }
}

}  // namespace heapsnap
