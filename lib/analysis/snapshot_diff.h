// What grew between snapshots, under names that mean the same in each (diff_names.h).
//
// growth_history.h says when and how fast memory grew; this says what did, also from one process to
// another, and from one build of the program to the next. So a slope here is fitted over all
// snapshots in the order given, whatever process they are of:
//
//   g_cache    ▁▃▄▆█   grew in 4 of 4 steps: a staircase
//   g_queue    ▁█▂▁▃   grew in 2 of 4
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/diff_names.h"
#include "analysis/diff_table.h"
#include "analysis/reference_streams.h"
#include "analysis/robust_slope.h"
#include "analysis/snapshot_streams.h"
#include "analysis/stack_census.h"
#include "snapshot/call_stack_tables.h"
#include "target/process.h"

namespace heapsnap {

// What memory is added up by. Values are printed.
enum class DiffBy : uint8_t {
  kOwner = 0,    // roots, with what they retain, and below these blocks
  kType = 1,     // of blocks; where it is unknown, what holds them
  kStack = 2,    // functions that allocated, and below each the stacks; bytes asked for
  kLeak = 3,     // groups of leaked blocks, with what only they lead to
  kSize = 4,     // of chunks in use
  kArena = 5,    // memory that malloc has from the system
  kAccount = 6,  // rows of the account of resident memory
  kClass = 7,    // of the objects of a language runtime, with buffers of their own
  kContext = 8,  // PostgreSQL's memory contexts, by name
};
inline constexpr int kDiffByCount = 9;
// "owner", "type", "stack", "leak", "size", "arena", "rss", "class", "context"
const char* to_string(DiffBy by);

// Why a snapshot says nothing of it.
enum class DiffLack : uint8_t {
  kNone,
  kReferences,  // they were not taken
  kStacks,      // the process was not tracked
  kResidency,   // which pages are resident is not known: a core
  kObjects,     // no language runtime was read
  kContexts,    // no memory contexts were read
};

struct DiffSnapshot {
  Process process;  // with its resident memory, if that is known
  FreezeMethod method = FreezeMethod::kNone;
  // All blocks but malloc's own, usable bytes; with the used slots of language runtimes.
  Tally in_use;
  // Of these, where there are references and it was asked for: what no root leads to, and no object
  // of a language runtime; what its collector would free (garbage_of()).
  std::optional<Tally> leaked;
  std::optional<Tally> garbage;
  std::string why_no_references;  // a clause
};

struct DiffRow {
  std::string name;
  SaidSizes sizes;  // may grow with each snapshot, so that they are no part of the name
  std::vector<std::optional<Tally>> values;  // as SnapshotDiff::snapshots; nothing: not known
  double growth = 0;                         // bytes, from the first to the last known value
  int64_t more_blocks = 0;                   // the same
  size_t steps_up = 0;                       // steps in which it grew, of DiffSection::steps
  // It never shrank, and grew in most of the steps, of which there are two at least.
  bool only_grows = false;
  std::optional<Slope> slope;      // over time, where the snapshots are in its order
  std::optional<double> per_step;  // the same from each snapshot to the next
  std::vector<uint32_t> held;      // rows below it, of which it is the sum or holder; ranked
};

struct DiffSection {
  DiffBy by = DiffBy::kOwner;
  std::vector<DiffLack> lacks;  // as SnapshotDiff::snapshots
  size_t steps = 0;             // between the snapshots that say something
  DiffRow total;
  std::vector<DiffRow> rows;  // that changed
  // Those that are not held by others: what only grows first, by its slope, if it matters (1 % of
  // what grew most); then what grew, and what shrank: the largest change
  // first.
  std::vector<uint32_t> ranked;
  size_t unchanged = 0;         // rows
  std::vector<Tally> left_out;  // of each snapshot: too small for so many rows

  bool is_comparable() const { return steps > 0; }
};

struct SnapshotDiff {
  std::vector<DiffSnapshot> snapshots;
  bool is_one_process = false;
  bool is_one_build = false;
  bool is_in_time = false;  // each was taken after the one before it
  DiffRow in_use;
  DiffRow resident;  // unknown for cores
  std::vector<DiffSection> sections;

  const DiffSection* section(DiffBy by) const;
  // What a bound is for: the total of those sums; without any, memory in use, or resident memory
  // where another allocator than glibc's serves the program.
  const DiffRow& measured(std::optional<DiffBy> by) const;
};

struct DiffInput {
  SnapshotStreams streams;
  const ReferenceStreams* references = nullptr;  // null: it has none
  const RecordedStacks* recorded = nullptr;      // null: the process was not tracked
};

class SnapshotDiffBuilder {
 public:
  // `wanted`: the sums to be made. `scope` and `threads`: of the names, that hold for all
  // snapshots. Stacks are not charged to the functions in `passed`.
  SnapshotDiffBuilder(const std::vector<DiffBy>& wanted, NameScope scope, PassedFrames passed = {},
                      ThreadNames threads = ThreadNames::kKnown);

  // The next snapshot. Reads all of it and keeps the sums; memory is that of the largest analysis
  // (owner_tree.h). Throws Error{kBadInput}.
  void add(const DiffInput& input);

  // To be called once, after two or more.
  SnapshotDiff finish();

 private:
  struct Section {
    DiffBy by;
    DiffTable table;
    std::vector<DiffLack> lacks;
    std::vector<std::optional<Tally>> totals;
  };

  void add_owners(Section& section, const DiffInput& input);
  void add_types(Section& section, const DiffInput& input);
  // The names pass over all that the other listings of stacks do.
  struct Stacks {
    StackCensus census;
    DiffStackNames names;
  };
  Stacks stacks_of(const DiffInput& input) const;
  static void add_stacks(Section& section, Stacks& stacks);
  // `stacks`: null where there are none.
  void add_leaks(Section& section, const DiffInput& input, Stacks* stacks);
  static void add_sizes(Section& section, const std::vector<SizeClass>& sizes);
  static void add_classes(Section& section, const RuntimeModel& model);
  static void add_contexts(Section& section, const RuntimeModel& model);
  static void add_arenas(Section& section, const SnapshotMetadata& metadata);

  NameScope scope_;
  ThreadNames threads_;
  PassedFrames passed_;
  std::vector<Section> sections_;
  std::vector<DiffSnapshot> snapshots_;
  std::vector<std::optional<Tally>> in_use_;
  std::vector<std::optional<Tally>> resident_;
};

// Whether all are of one build of a program.
NameScope scope_of(const std::vector<Process>& processes);

}  // namespace heapsnap
