#include "analysis/next_step.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/language_runtime.h"
#include "analysis/program_build.h"
#include "tracking/interpreted_frames.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLittle = 1 << 20;
constexpr uint64_t kTrimShare = 10;  // one part in ten of resident memory

uint64_t resident(const RssAccount& account, std::initializer_list<RssRow> rows) {
  uint64_t sum = 0;
  for (const RssRow row : rows) sum += account[row].resident;
  return sum;
}

bool has_known_program(const SnapshotMetadata& metadata) {
  return !metadata.process.exe.empty();
}

// The tracker needs glibc's malloc in a library of its own.
bool can_be_tracked(const SnapshotMetadata& metadata) {
  if (metadata.heap.instances.empty() || metadata.process.machine != Machine::kX86_64) return false;
  const std::string& module = metadata.heap.instances.front().module;
  return !module.empty() && module != metadata.process.exe;
}

// More of the snapshot itself, where nothing can be done about the process.
NextAction more_of_snapshot(const NextStepFacts& facts) {
  if (!facts.is_whole_report) return NextAction::kReport;
  const bool has_chunks = !facts.metadata.heap.segments.empty();
  return has_chunks ? NextAction::kExport : NextAction::kJson;
}

uint64_t churned(const NextStepFacts& facts) {
  return facts.census == nullptr ? 0 : churned_bytes(*facts.census, *facts.stacks);
}

NextAction to_call_stacks(const NextStepFacts& facts) {
  if (facts.census != nullptr) {
    if (facts.census->live_bytes > 0) return NextAction::kStacks;
    if (churned(facts) != 0) return NextAction::kChurn;
    if (facts.process_runs && facts.metadata.tracker->recording) return NextAction::kStacksLater;
    return more_of_snapshot(facts);
  }
  if (!can_be_tracked(facts.metadata)) return more_of_snapshot(facts);
  if (facts.process_runs) return NextAction::kTrack;
  if (facts.is_whole_report && has_known_program(facts.metadata)) return NextAction::kTrackNextRun;
  return more_of_snapshot(facts);
}

NextAction to_growth(const NextStepFacts& facts) {
  if (churned(facts) != 0) return NextAction::kChurn;
  if (!facts.process_runs || !can_be_tracked(facts.metadata)) return to_call_stacks(facts);
  const bool is_watched = facts.census != nullptr && facts.metadata.tracker->recording;
  return is_watched ? NextAction::kWatch : NextAction::kTrackAndWatch;
}

NextAction to_mapping_code(const NextStepFacts& facts) {
  if (facts.process_runs) return NextAction::kWhoMaps;
  return facts.is_whole_report ? NextAction::kJson : NextAction::kReport;
}

NextStep of_allocator(const NextStepFacts& facts) {
  NextStep step{NextSubject::kAllocator, to_mapping_code(facts),
                resident(facts.account, {RssRow::kOtherAnonymous}),
                facts.metadata.heap.foreign_allocator};
  const bool tells = statistics_variable(step.name) != nullptr;
  if (tells && has_known_program(facts.metadata)) step.action = NextAction::kStatistics;
  return step;
}

NextStep of_other_memory(const NextStepFacts& facts, uint64_t bytes) {
  NextStep step{NextSubject::kOtherMemory, to_mapping_code(facts), bytes, {}};
  if (facts.other_memory.empty() || !has_known_program(facts.metadata)) return step;
  const MappingGroup& largest = facts.other_memory.front();
  const NextAction otherwise = step.action;
  switch (largest.kind) {
    case MappingKind::kPython: step.action = NextAction::kPythonObjects; break;
    case MappingKind::kRuby: step.action = NextAction::kRubyObjects; break;
    case MappingKind::kV8: step.action = NextAction::kV8Objects; break;
    case MappingKind::kJava:
      step.action = facts.process_runs ? NextAction::kJavaObjects : otherwise;
      break;
    default: return step;
  }
  step.name = largest.evidence;
  return step;
}

// Half of what is free, at least.
bool trim_gives_it_back(const NextStepFacts& facts, uint64_t free) {
  return facts.process_runs &&
         std::any_of(facts.advice.begin(), facts.advice.end(), [free](const Advice& advice) {
           return advice.kind == AdviceKind::kTrim && advice.saves_least >= free / 2;
         });
}

// Of a snapshot of a running process, whose pages are known.
uint64_t worth_trimming(const NextStepFacts& facts) {
  if (!facts.process_runs) return 0;
  for (const Advice& advice : facts.advice) {
    const bool is_much = advice.saves_least >= facts.account.total.resident / kTrimShare;
    if (advice.kind == AdviceKind::kTrim && is_much) return advice.saves_least;
  }
  return 0;
}

NextRuntime runtime_of(const SnapshotMetadata& metadata) {
  if (is_postgres(metadata.process.exe)) return NextRuntime::kPostgres;
  for (const LanguageRuntime& runtime : mapped_runtimes(metadata.mappings)) {
    if (runtime.language == Language::kPython) return NextRuntime::kPython;
    if (runtime.language == Language::kRuby) return NextRuntime::kRuby;
  }
  return NextRuntime::kNone;
}

bool could_record_functions(const NextStepFacts& facts) {
  if (facts.stacks != nullptr && has_interpreted_frames(*facts.stacks)) return false;
  return recordable_language(facts.metadata.mappings).has_value();
}

RuntimeKind kind_of_largest_heap(const SnapshotMetadata& metadata) {
  const std::vector<Runtime>& all = metadata.runtimes.runtimes;
  const auto largest =
      std::max_element(all.begin(), all.end(), [](const Runtime& a, const Runtime& b) {
        return std::tie(a.area_bytes, a.objects) < std::tie(b.area_bytes, b.objects);
      });
  return largest == all.end() ? RuntimeKind::kUnknown : largest->kind;
}

// Of what the program has from malloc.
uint64_t runtime_bytes_in_malloc(const SnapshotMetadata& metadata) {
  uint64_t sum = 0;
  for (const RuntimeClass& row : metadata.runtimes.classes) {
    if (__builtin_add_overflow(sum, row.malloc_bytes, &sum)) return UINT64_MAX;
  }
  return sum;
}

NextStep main_step(const NextStepFacts& facts);

}  // namespace

const char* to_string(NextRuntime runtime) {
  switch (runtime) {
    case NextRuntime::kNone: return "";
    case NextRuntime::kPython: return "python";
    case NextRuntime::kRuby: return "ruby";
    case NextRuntime::kPostgres: return "postgresql";
  }
  return "";
}

const char* to_string(NextSubject subject) {
  switch (subject) {
    case NextSubject::kDamage: return "damage";
    case NextSubject::kAllocator: return "allocator";
    case NextSubject::kLittle: return "little";
    case NextSubject::kOtherMemory: return "other-memory";
    case NextSubject::kRuntime: return "runtime";
    case NextSubject::kFree: return "free";
    case NextSubject::kInUse: return "in-use";
  }
  return "unknown";
}

NextStep next_step(const NextStepFacts& facts) {
  NextStep step = main_step(facts);
  if (step.subject == NextSubject::kDamage || step.subject == NextSubject::kAllocator) return step;
  if (step.action != NextAction::kTrim) step.trim_bytes = worth_trimming(facts);
  if (step.action == NextAction::kStacks) step.churned_bytes = churned(facts);
  if (step.subject == NextSubject::kLittle || step.action == NextAction::kObjects) return step;
  step.runtime = runtime_of(facts.metadata);
  const RuntimeModel& runtimes = facts.metadata.runtimes;
  step.has_objects = !runtimes.classes.empty() || !runtimes.contexts.empty();
  const bool is_interpreted_program =
      step.runtime == NextRuntime::kPython || step.runtime == NextRuntime::kRuby;
  step.can_record_functions =
      facts.process_runs && is_interpreted_program && could_record_functions(facts);
  return step;
}

namespace {

NextStep main_step(const NextStepFacts& facts) {
  const HeapModel& heap = facts.metadata.heap;
  if (!heap.corruptions.empty()) {
    const bool may_be_sound = facts.metadata.freeze.method == FreezeMethod::kNone;
    return {NextSubject::kDamage,
            may_be_sound && facts.process_runs ? NextAction::kAttach
            : facts.is_whole_report            ? NextAction::kExport
                                               : NextAction::kReport,
            heap.corruptions.size(),
            {}};
  }
  if (heap.instances.empty() || heap.foreign_answers_malloc) return of_allocator(facts);

  const uint64_t all_in_use = resident(facts.account, {RssRow::kProgram, RssRow::kMmapped});
  // Where it is tracked, call stacks tell more of that.
  const uint64_t of_runtime =
      facts.census == nullptr ? std::min(all_in_use, runtime_bytes_in_malloc(facts.metadata)) : 0;
  const uint64_t in_use = all_in_use - of_runtime;
  const uint64_t free =
      resident(facts.account, {RssRow::kTcache, RssRow::kFastbin, RssRow::kBins, RssRow::kTop});
  const uint64_t other = resident(facts.account, {RssRow::kOtherAnonymous});
  const uint64_t python = resident(
      facts.account, {RssRow::kPythonObjects, RssRow::kPythonPools, RssRow::kPythonArenas});
  const uint64_t ruby = resident(facts.account, {RssRow::kRubyObjects, RssRow::kRubyPages,
                                                 RssRow::kRubyFreePages, RssRow::kRubyTransient});
  const uint64_t runtime = python + ruby + of_runtime;
  if (std::max({in_use, free, other, runtime}) < kLittle) {
    const uint64_t overhead = resident(facts.account, {RssRow::kOverhead});
    return {NextSubject::kLittle, to_growth(facts), in_use + overhead + free + other + runtime, {}};
  }
  if (runtime != 0 && runtime >= std::max({in_use, free, other})) {
    const uint64_t free_in_runtime = resident(
        facts.account,
        {RssRow::kPythonPools, RssRow::kPythonArenas, RssRow::kRubyPages, RssRow::kRubyFreePages});
    NextStep step{NextSubject::kRuntime, NextAction::kObjects, runtime,
                  name_of(kind_of_largest_heap(facts.metadata))};
    step.free_bytes = free_in_runtime;
    return step;
  }
  if (other > std::max(in_use, free)) return of_other_memory(facts, other);
  if (free > in_use) {
    const bool are_owners_known =
        facts.metadata.references && facts.metadata.references->why_not.empty();
    return {NextSubject::kFree,
            trim_gives_it_back(facts, free)               ? NextAction::kTrim
            : are_owners_known && facts.census == nullptr ? NextAction::kOwners
                                                          : to_call_stacks(facts),
            free,
            {}};
  }
  return {NextSubject::kInUse, to_call_stacks(facts), all_in_use, {}};
}

}  // namespace

const char* statistics_variable(const std::string& allocator) {
  if (allocator == "jemalloc") return "MALLOC_CONF=stats_print:true";
  if (allocator == "tcmalloc") return "MALLOCSTATS=1";
  if (allocator == "mimalloc") return "MIMALLOC_SHOW_STATS=1";
  return nullptr;
}

}  // namespace heapsnap
