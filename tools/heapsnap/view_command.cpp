#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/leak_census.h"
#include "analysis/owner_tree.h"
#include "base/error.h"
#include "report/diff_report.h"
#include "report/flame_json.h"
#include "report/heap_map_data.h"
#include "report/history_report.h"
#include "report/json_report.h"
#include "report/json_writer.h"
#include "report/reference_report.h"
#include "report/stack_labels.h"
#include "report/terminal_text.h"
#include "report/view_page.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_facts.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/snapshot_series.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/step_line.h"
#include "tools/viewer/viewer_page.h"

namespace heapsnap {

namespace {

constexpr const char* kViewDescription =
    "Writes one page (HTML) for a browser, to look at and to hand on: the account of resident\n"
    "memory, owners, a flame graph, leaks, a map of the heap down to its chunks, sizes and\n"
    "arenas. Of several snapshots it shows the last, what grew since the first, and how memory\n"
    "went on. The page is complete in itself: it loads nothing and sends nothing.\n"
    "\n"
    "Owners and leaks are of snapshots taken with --references yes; the flame graph is by call\n"
    "stacks where the process was tracked, else by owners.";

constexpr size_t kMostViewed = 100;
constexpr size_t kMostOwners = 1000;
constexpr size_t kMostLeakGroups = 500;
constexpr uint64_t kOwnerDepth = 8;
constexpr double kLeastShare = 0.0005;
constexpr double kTolerance = 1 << 20;  // as that of heapsnap history

struct ViewArguments {
  std::vector<std::string> snapshots;
  std::string output;
  std::string sysroot;
  bool force = false;
};

// Throws Error unless each is a snapshot: what would be found after minutes is found at once.
void check_snapshots_to_view(const std::vector<std::string>& paths) {
  if (paths.size() > kMostViewed) {
    throw Error(ErrorKind::kUsage, "view",
                fmt::format("a page shows at most {} snapshots", kMostViewed), "leave some out");
  }
  for (const std::string& path : paths) open_snapshot(path, "view");
}

// What is printed into text.
template <typename Print>
std::string printed(Print print) {
  std::string text;
  Writer out(text);
  print(out);
  out.flush();
  return text;
}

// The documents and columns of the page, from one snapshot and those before it.
class ViewBuilder {
 public:
  ViewBuilder(const std::vector<std::string>& paths, std::string sysroot)
      : paths_(paths), sysroot_(std::move(sysroot)), snapshot_(SnapshotReader::open(paths.back())) {
    if (snapshot_.has_references()) references_.emplace(references_of(snapshot_));
  }

  ViewPage build() {
    const bool has_growth = paths_.size() > 1;
    StepLine working(references_ ? "finding what owns the memory" : "adding up the snapshot",
                     3 + (references_ ? 2 : 0) + (has_growth ? 1 : 0));
    if (references_) {
      OwnerTree tree = make_owner_tree(streams(), *references_);
      working.step("adding up the snapshot");
      add_report(sums_of(tree));
      add_owners(std::move(tree));
      working.step("looking for leaks");
      add_leaks();
    } else {
      add_report(std::nullopt);
    }
    working.step("adding up the flame graph");
    add_flame();
    working.step("drawing the map of the heap");
    add_map();
    if (has_growth) {
      working.step("comparing the snapshots");
      add_growth();
    }
    add_view();
    return std::move(page_);
  }

 private:
  const SnapshotMetadata& metadata() const { return snapshot_.metadata(); }
  SnapshotStreams streams() const { return streams_of(snapshot_); }

  void add(const char* name, std::string json) {
    page_.documents.push_back({name, std::move(json)});
  }

  void add_report(std::optional<OwnerSums> owners) {
    facts_.emplace(snapshot_, paths_.back(), ReportDepth::kWhole, PassedFrames{},
                   std::move(owners));
    add("report", printed([&](Writer& out) { print_json_report(out, facts_->input()); }));
  }

  ReferenceReportInput reference_input() const {
    return {metadata(), *references_, facts_->recorded(), paths_.back()};
  }

  void add_owners(OwnerTree tree) {
    const ReferenceReportInput input = reference_input();
    if (!metadata().tracker) owners_ = profile_of_owners(input, tree);
    for (size_t i = kMostOwners; i < tree.children[0].size(); ++i) {
      owners_left_out_ += tree.nodes[tree.children[0][i]].retained;
      ++owner_rows_left_out_;
    }
    tree.children[0].resize(std::min(kMostOwners, tree.children[0].size()));
    const OwnerListing listing{OwnerGrouping::kRoot, kOwnerDepth, 0, kLeastShare};
    add("owners", printed([&](Writer& out) { print_json_owners(out, input, tree, listing); }));
  }

  void add_leaks() {
    const ReferenceReportInput input = reference_input();
    LeakCensus census = take_leak_census(streams(), *references_);
    for (size_t i = kMostLeakGroups; i < census.groups.size(); ++i) {
      leaks_left_out_ += Tally{census.groups[i].retained_blocks, census.groups[i].retained_bytes};
      ++leak_rows_left_out_;
    }
    if (leak_rows_left_out_ != 0) census.groups.resize(kMostLeakGroups);
    for (const LeakGroup& group : census.groups) leak_functions_.push_back(charged_to(group.stack));
    add("leaks", printed([&](Writer& out) { print_json_leaks(out, input, census, false); }));
    const auto trails = leak_trails(streams(), *references_, census);
    add("trails",
        printed([&](Writer& out) { print_json_leak_trails(out, input, census, trails); }));
  }

  // The function that a stack is charged to; empty where none is known.
  std::string charged_to(uint32_t stack) const {
    const StackReportInput* const stacks = facts_->input().stacks;
    const bool is_known = stack != 0 && stack < facts_->recorded().stacks.sites.size();
    return stacks != nullptr && is_known ? charged_function(*stacks, stack) : std::string();
  }

  // The profile of the first of several snapshots, if one of that kind can be made.
  std::optional<StackProfile> earlier_profile(StackProfile::Kind kind) const {
    if (paths_.size() < 2) return std::nullopt;
    const SnapshotReader first = SnapshotReader::open(paths_.front());
    const SnapshotMetadata& before = first.metadata();
    if (kind == StackProfile::Kind::kCallStacks && before.tracker) {
      RecordedStacks recorded = first.read_call_stacks();
      add_missing_names(before, recorded, stack_debug_files(sysroot_, false), sysroot_);
      const StackCensus census = take_stack_census(streams_of(first), recorded.stacks);
      return profile_of_stacks(before, recorded, census);
    }
    if (kind == StackProfile::Kind::kOwners && first.has_references()) {
      const ReferenceStreams references = references_of(first);
      const RecordedStacks no_stacks;
      return profile_of_owners({before, references, no_stacks, paths_.front()},
                               make_owner_tree(streams_of(first), references));
    }
    return std::nullopt;
  }

  void add_flame() {
    std::vector<uint32_t> nodes;
    if (metadata().tracker) {
      owners_ = profile_of_stacks(metadata(), facts_->recorded(), facts_->census(), &nodes);
    }
    if (!owners_) return;
    const std::optional<StackProfile> before = earlier_profile(owners_->kind());
    const FlameInput input{*owners_, before ? &*before : nullptr, std::move(nodes)};
    add("flame", printed([&](Writer& out) { print_json_flame(out, input); }));
  }

  void add_map() {
    HeapMapData map = make_heap_map_data(streams(), references_ ? &*references_ : nullptr);
    add("map", std::move(map.json));
    page_.binaries.push_back({"pixels", std::move(map.pixels)});
    page_.binaries.push_back({"chunks", std::move(map.chunks)});
  }

  void add_growth() {
    const SnapshotDiff diff = read_diff(paths_, all_sums(), {}, sysroot_);
    const DiffReportInput input{diff, paths_, std::nullopt, std::nullopt};
    add("diff", printed([&](Writer& out) { print_json_diff(out, input); }));
    const NamedHistory history = read_history({{}, paths_, {}}, {});
    add("history", printed([&](Writer& out) { print_json_history(out, history, kTolerance); }));
  }

  // What the page leaves out of these, and what they do not say.
  void add_view() {
    add("view", printed([&](Writer& out) {
          JsonWriter json(out);
          json.begin_object();
          json.member("kind", "view");
          json.member("version", 1);
          json.member("owners_left_out", owner_rows_left_out_);
          json.member("owners_left_out_bytes", owners_left_out_.bytes);
          json.member("leak_groups_left_out", leak_rows_left_out_);
          json.member("leak_groups_left_out_bytes", leaks_left_out_.bytes);
          json.key("leak_functions");
          json.begin_array();
          for (const std::string& function : leak_functions_) json.value(function);
          json.end_array();
          json.end_object();
        }));
  }

  const std::vector<std::string>& paths_;
  std::string sysroot_;
  SnapshotReader snapshot_;
  std::optional<ReferenceStreams> references_;
  std::optional<ReportFacts> facts_;
  std::optional<StackProfile> owners_;
  Tally owners_left_out_;
  Tally leaks_left_out_;
  size_t owner_rows_left_out_ = 0;
  size_t leak_rows_left_out_ = 0;
  std::vector<std::string> leak_functions_;  // of each group, whom its stack is charged to
  ViewPage page_;
};

}  // namespace

int run_view(const std::vector<std::string>& words) {
  ViewArguments arguments;
  OptionParser parser("view [options] SNAPSHOT [MORE...] -o FILE", kViewDescription);
  parser.text("output,o", arguments.output, "FILE", "the page; - for standard output");
  parser.flag("force,f", arguments.force, "replace FILE if it exists");
  parser.text("sysroot", arguments.sysroot, "DIR",
              "directory that holds the target's files, for names missing from the snapshots");
  parser.positionals("SNAPSHOT", arguments.snapshots);
  parser.example("heapsnap view a.hsnap -o a.html", "then open a.html in a browser");
  parser.example("heapsnap view monday.hsnap friday.hsnap -o week.html",
                 "the second, and what grew since the first");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.snapshots.empty() || arguments.output.empty()) {
    throw Error(ErrorKind::kUsage, "view", "it needs a snapshot and -o FILE",
                "for example: heapsnap view a.hsnap -o a.html");
  }
  check_snapshots_to_view(arguments.snapshots);
  refuse_to_replace_input(arguments.output, arguments.snapshots);
  ResultFile result(arguments.output, arguments.force);
  print_view_page(result.writer(), viewer_page(),
                  ViewBuilder(arguments.snapshots, arguments.sysroot).build());
  result.commit();
  if (arguments.output != "-") {
    fmt::print("{}: open it in a browser\n", printable(arguments.output));
  }
  return kExitDone;
}

}  // namespace heapsnap
