// The call stacks of a tracked process, for people and for programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/stack_census.h"
#include "analysis/stack_groups.h"
#include "report/stack_report_input.h"
#include "report/text_report.h"
#include "report/writer.h"
#include "snapshot/metadata.h"

namespace heapsnap {

// Text: a head, then each stack with its share, sizes, rates and frames.
void print_stacks(Writer& out, const StackReportInput& input, const TextStyle& style);
// {"kind":"stacks","version":1,...}: the same facts, exact, with all frames; keys are only ever
// added.
void print_json_stacks(Writer& out, const StackReportInput& input);

// Stacks added up. `what`: "function" or "module".
void print_stack_groups(Writer& out, const StackReportInput& input, const FunctionGroups& groups,
                        const std::string& what, const TextStyle& style);
void print_json_stack_groups(Writer& out, const StackReportInput& input,
                             const FunctionGroups& groups, const std::string& what);
// What each thread allocated and freed. `ranked`: the threads to list, indexes into the tracker's.
void print_tracked_threads(Writer& out, const StackReportInput& input,
                           std::span<const uint32_t> ranked, const TextStyle& style);
void print_json_tracked_threads(Writer& out, const StackReportInput& input,
                                std::span<const uint32_t> ranked);

// What must be known to interpret any of them correctly, a sentence each: blocks without a stack,
// what was dropped, limits that were reached, sampling.
std::vector<std::string> stack_remarks(const SnapshotMetadata& metadata, const StackCensus& census);

// "6.2 KiB in 64 blocks"
std::string live_text(double bytes, double blocks);

// Where most memory in use was allocated before inject: that the stacks do not explain it, and what
// would. Else empty.
std::string old_share_text(const SnapshotMetadata& metadata, const StackCensus& census);

// Why blocks have no stack: "allocated before inject, or passed over by sampling".
std::string untracked_text(const SnapshotMetadata& metadata);
// What follows that, of the same blocks: how many of them samples stand for. Empty for none.
std::string passed_over_text(const StackCensus& census);

}  // namespace heapsnap
