// The one thing to do after a look at a snapshot's first screen: to know more of what the most of
// its heaps and other anonymous memory is, or to have less of it.
//
// Where it leads follows from the state of the process, the first of these that fits:
//
//   the heap does not make sense           where and why, then the chunks around
//   malloc is not glibc's                  that allocator's own account
//   little of both                         whether it grows; who allocates and frees, if many do
//   mostly other anonymous memory          the account of the runtime that manages it, or who
//                                          maps it
//   mostly a language runtime's            its objects, by class
//   mostly free, a trim gives half back    the trim
//   mostly free, not tracked               what holds the blocks between the free ones, if known
//   mostly free, or in use                 the call stacks; how to get them where there are none
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/advice.h"
#include "analysis/heap_summary.h"
#include "analysis/mapping_groups.h"
#include "analysis/rss_account.h"
#include "analysis/stack_census.h"
#include "snapshot/metadata.h"

namespace heapsnap {

// What most of heaps and other anonymous memory is, or what prevents an answer.
enum class NextSubject : uint8_t {
  kDamage,
  kAllocator,
  kLittle,
  kOtherMemory,
  kRuntime,
  kFree,
  kInUse
};
const char* to_string(NextSubject subject);  // "damage", "allocator", ...

enum class NextAction : uint8_t {
  kReport,         // the whole report of the snapshot
  kJson,           // all figures, to be compared with those of another snapshot
  kExport,         // each chunk
  kTrim,           // malloc_trim(0)
  kTrack,          // load the tracker; later show the call stacks
  kTrackNextRun,   // start the program with the tracker
  kOwners,         // what holds the blocks in use
  kStacks,         // the call stacks of the snapshot
  kStacksLater,    // those of the process, once it has allocated more
  kChurn,          // the call stacks that allocate and free the most
  kTrackAndWatch,  // load the tracker; then show its counters, second by second
  kWatch,          // its counters
  kStatistics,     // what the allocator says of itself: `name`
  kPythonObjects,  // let Python take its objects from malloc
  kRubyObjects,    // what Ruby says of its objects
  kV8Objects,
  kJavaObjects,
  kWhoMaps,  // the call stacks that map memory
  kObjects,  // the runtime's objects in the snapshot, by class
  kAttach,   // read the process again, at one instant
};

// Whose own tools tell more than call stacks of C functions do.
enum class NextRuntime : uint8_t { kNone, kPython, kRuby, kPostgres };
const char* to_string(NextRuntime runtime);  // "", "python", "ruby", "postgresql"

struct NextStep {
  NextSubject subject = NextSubject::kInUse;
  NextAction action = NextAction::kReport;
  uint64_t bytes = 0;     // of the subject; kDamage: places
  std::string name = {};  // of an allocator or a runtime's file; else empty
  // What a trim gives back besides, where that is 10 % of resident memory at least; else 0.
  uint64_t trim_bytes = 0;
  // kStacks: what was allocated and freed again, where that is much more than is in use; else 0.
  uint64_t churned_bytes = 0;
  NextRuntime runtime = NextRuntime::kNone;
  bool has_objects = false;  // its objects are in the snapshot, and the action is another one
  // kTrack, kStacks of a process that runs: functions of `runtime` could be recorded, and are not.
  bool can_record_functions = false;
  uint64_t free_bytes = 0;  // kRuntime: of `bytes`, what is free in the runtime's areas
  bool operator==(const NextStep&) const = default;
};

struct NextStepFacts {
  const SnapshotMetadata& metadata;
  const RssAccount& account;
  const std::vector<Advice>& advice;
  const std::vector<MappingGroup>& other_memory;
  // Of a tracked process, else null.
  const StackCensus* census = nullptr;
  const CallStacks* stacks = nullptr;
  bool process_runs = false;     // the very process, on this machine
  bool is_whole_report = false;  // the whole report is being printed
};

NextStep next_step(const NextStepFacts& facts);

// Allocators that print what they keep when they are asked to by the environment, as NAME=VALUE;
// nullptr: it is not known how. What they print comes at the program's end.
const char* statistics_variable(const std::string& allocator);

}  // namespace heapsnap
