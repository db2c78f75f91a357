// What becomes of each field of a snapshot when it is shared: one decision for every column that
// docs/snapshot-format.md lists. A column without a decision cannot be shared: an unknown field may
// hold anything.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace heapsnap {

enum class FieldRule : uint8_t {
  kKeep,         // a number, a state, a flag: says nothing of whose it is
  kRebase,       // an address (address_rebase.h)
  kDrop,         // empty, or 0
  kPath,         // NameCut::path()
  kFunction,     // NameCut::function()
  kVariable,     // NameCut::variable()
  kTypeName,     // NameCut::type()
  kPart,         // NameCut::part()
  kSourceFile,   // NameCut::source_file()
  kProgramName,  // what the process is called
  kThreadName,   // NameCut::thread_name()
  kThread,       // a process or thread: a number of our own
  kSentence,     // NameCut::sentence()
  kAllocator,    // NameCut::allocator()
  kWord,         // NameCut::word()
  kBuildId,      // kept with the names, else dropped
  kByRow,        // depends on other fields of its row (shared_rows.cpp)
};

struct FieldDecision {
  std::string_view table;
  std::string_view column;
  FieldRule rule = FieldRule::kDrop;
};

// All of them, by table.
std::span<const FieldDecision> field_decisions();
// Throws Error{kInternal} for a column that has no decision.
FieldRule rule_of(std::string_view table, std::string_view column);

}  // namespace heapsnap
