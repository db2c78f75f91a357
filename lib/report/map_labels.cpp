#include "report/map_labels.h"

#include <algorithm>

#include "base/count_text.h"
#include "report/fitted_name.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

using ClassKind = MapClass::Kind;

// "64 B", "1 KiB": borders are powers of two.
std::string border_text(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  if (bytes < 1024 * 1024) return std::to_string(bytes / 1024) + " KiB";
  return std::to_string(bytes / 1024 / 1024) + " MiB";
}

std::string size_label(const MapClass& each) {
  if (each.begin == 0) return "in use, below " + border_text(each.end);
  if (each.end == 0) return "in use, " + border_text(each.begin) + " and more";
  return "in use, " + border_text(each.begin) + " to " + border_text(each.end);
}

std::string plain_label(ClassKind kind, bool has_huge, bool has_leaks) {
  switch (kind) {
    case ClassKind::kInUse:
      if (has_huge) return "in use, in small pages";
      return has_leaks ? "in use, not leaked" : "in use";
    case ClassKind::kTcache: return "free in thread caches (tcache)";
    case ClassKind::kFastbin: return "free in fastbins";
    case ClassKind::kBins: return "free in bins";
    case ClassKind::kTop: return "free in top chunks";
    case ClassKind::kFence: return "fences at segments' ends";
    case ClassKind::kUnwalked: return "not walked: damage";
    case ClassKind::kInUseHuge: return "in use, in huge pages";
    case ClassKind::kFree: return has_huge ? "free, in small pages" : "free";
    case ClassKind::kFreeHuge: return "free, in huge pages";
    case ClassKind::kSwapped: return "in swap";
    case ClassKind::kAbsent: return "absent: costs no memory";
    case ClassKind::kUnknownPages: return "not known where its pages are";
    case ClassKind::kFreeElsewhere: return "free, absent or in swap";
    case ClassKind::kOtherTypes: return "other types";
    case ClassKind::kUnknownType: return "type unknown";
    case ClassKind::kOtherStacks: return "other call stacks";
    case ClassKind::kNoStack: return "no call stack recorded";
    case ClassKind::kLeaked: return "leaked: nothing leads to it";
    case ClassKind::kSize:
    case ClassKind::kType:
    case ClassKind::kStack:
    case ClassKind::kAge: break;
  }
  return {};
}

}  // namespace

std::vector<std::string> map_labels(std::span<const MapClass> classes,
                                    std::span<const BlockType> types,
                                    std::span<const std::string> names) {
  const auto has = [&](ClassKind kind) {
    return std::any_of(classes.begin(), classes.end(),
                       [&](const MapClass& each) { return each.kind == kind; });
  };
  const bool has_huge = has(ClassKind::kInUseHuge);
  const bool has_leaks = has(ClassKind::kLeaked);
  std::vector<std::string> full_names;
  for (const MapClass& each : classes) {
    if (each.kind == ClassKind::kType) full_names.push_back(printable(types[each.number].name));
  }
  const std::vector<std::string> type_names = fitted_names(full_names, kMapLabelWidth);
  std::vector<std::string> labels;
  size_t type = 0;
  size_t name = 0;
  for (const MapClass& each : classes) {
    switch (each.kind) {
      case ClassKind::kSize: labels.push_back(size_label(each)); break;
      case ClassKind::kType: labels.push_back(type_names[type++]); break;
      case ClassKind::kStack:
      case ClassKind::kAge: labels.push_back(names[name++]); break;
      default: labels.push_back(plain_label(each.kind, has_huge, has_leaks));
    }
  }
  return labels;
}

}  // namespace heapsnap
