#include "report/stack_report.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <array>
#include <sstream>

#include "report/churn_log.h"
#include "report/stack_frames.h"
#include "report/stack_lines.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "tests/unit/report/alike_stacks.h"
#include "tests/unit/report/sample_stacks.h"

using namespace heapsnap;
using Sample = test::SampleStacks;

namespace {

template <typename Print>
std::string printed(Print print) {
  std::string text;
  Writer out(text);
  print(out);
  out.flush();
  return text;
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "the text names share, sizes, rates and frames, and no byte of the target moves the cursor") {
  const Sample sample;
  const std::string text = printed([&](Writer& out) {
    print_stacks(out, sample.input(), {false, 80});
  });
  CAPTURE(text);
  CHECK(holds(text, "6.3 KiB in 65 blocks"));
  CHECK(holds(text, "untracked: 48 B in 2 blocks (allocated before tracking began)"));
  CHECK(holds(text, "1. 98.5 %  6.3 KiB in 64 blocks"));
  CHECK(holds(text, "100 B × 64"));
  CHECK(holds(text, "8.8 KiB in 90, 45/s; freed 2.5 KiB in 26"));
  CHECK(holds(text, "      fill(Node*)  node.h:7 (inlined)\n      make_node(int)  tree.c:12\n"));
  CHECK(holds(text, "      tree+0x2222\n      0x7f0000001234\n"));
  CHECK(holds(text, "cut off: no unwind information"));
  CHECK_FALSE(holds(text, "\x1b"));
}

TEST_CASE("what samples stand for is not taken for memory without a stack") {
  Sample sample;
  sample.census.without_stack = {4000, 4 << 20};
  sample.census.passed_over = {3000, 3 << 20};
  CHECK(holds(printed([&](Writer& out) {
                print_stacks(out, sample.input(), {false, 140});
              }),
              "untracked: 4.0 MiB in 4,000 blocks (allocated before tracking began; the stacks' "
              "samples stand for about 3.0 MiB of it)"));
}

TEST_CASE("stacks that do not explain the memory say so") {
  Sample sample;
  sample.census.without_stack = {1000, 64'350'000};
  CHECK(old_share_text(sample.metadata, sample.census).empty());  // not from before inject
  Mapping library;
  library.path = "/memfd:libheapsnap_tracker.so";
  library.inode = 1;
  sample.metadata.mappings.push_back(library);
  CHECK(old_share_text(sample.metadata, sample.census) ==
        "61.4 MiB of malloc's memory in use (100.0 %) are older than the tracker; these stacks do "
        "not explain them. If they stay and the program has stopped growing, start it under "
        "heapsnap: heapsnap run -- COMMAND");
  // The postmaster forks PostgreSQL's backends; nobody starts one.
  sample.metadata.process.exe = "/usr/lib/postgresql/15/bin/postgres";
  CHECK(old_share_text(sample.metadata, sample.census).ends_with(": heapsnap inject POSTMASTER"));
  // So little is named with the untracked blocks; it is no reason to start anything again.
  sample.census.without_stack = {1000, 81'500};
  CHECK(old_share_text(sample.metadata, sample.census).empty());
}

TEST_CASE("listings say who allocates blocks now of the sizes from before the tracker") {
  const Sample sample;
  StackReportInput input = sample.input();
  input.old_blocks = {{112, {9936, 9936 * 112}, 64, 2}};
  const std::string sentence =
      "  note      untracked: 48 B in 2 blocks (allocated before tracking began)\n"
      "  note      untracked: 9,936 of 112 B, caller unknown; all 64 newer ones in use\n"
      "            were allocated by fill(Node*)\n";
  CHECK(holds(printed([&](Writer& out) { print_stacks(out, input, {false, 80}); }), sentence));
  CHECK(holds(printed([&](Writer& out) {
                print_stack_groups(out, input, {}, "function", {false, 80});
              }),
              sentence));
  const std::string json = printed([&](Writer& out) { print_json_stacks(out, input); });
  simdjson::dom::parser parser;
  const simdjson::dom::element old = parser.parse(json)["old_blocks"].at(0);
  CHECK(uint64_t(old["old"]["count"]) == 9936);
  CHECK(std::string_view(old["probable_function"]) == "fill(Node*)");
}

TEST_CASE("many sizes are ranges, and what is little is only counted") {
  const Sample sample;
  StackReportInput input = sample.input();
  input.sizes[0] = {{10, 1}, {12, 1}, {600, 100}, {700, 100}, {800, 100}, {900, 1}, {5000, 10}};
  const std::string text = printed([&](Writer& out) { print_stacks(out, input, {false, 120}); });
  CAPTURE(text);
  CHECK(holds(text,
              "    requested  512 B to 1.0 KiB: 301 blocks, 4.0 KiB to 8.0 KiB: 10 blocks, 2 "
              "more sizes\n"));
}

TEST_CASE("each order has its own unit, and shares of its own total") {
  const Sample sample;
  StackReportInput input = sample.input();
  const auto lines = [&](StackOrder order) {
    input.order = order;
    return printed([&](Writer& out) { print_stacks(out, input, {false, 80}); });
  };
  const std::string blocks = lines(StackOrder::kLiveBlocks);
  CAPTURE(blocks);
  CHECK(holds(blocks, "\n1. 98.5 %  64 blocks with 6.3 KiB\n    requested  "));
  CHECK(holds(blocks, "\n2. 1.5 %  1 block with 100 B\n"));
  CHECK_FALSE(holds(blocks, "  sorted "));

  const std::string rate = lines(StackOrder::kRate);
  CAPTURE(rate);
  CHECK(holds(rate, "\n  sorted    by allocations: 91 in total, 46/s\n"));
  CHECK(holds(rate, "\n1. 98.9 %  90 allocations, 45/s\n    live       6.3 KiB in 64 blocks\n"));
  CHECK(holds(rate, "\n2. 1.1 %  1 allocation, 0.5/s\n    live       100 B in 1 block\n"));

  const std::string churn = lines(StackOrder::kChurn);
  CAPTURE(churn);
  CHECK(holds(churn, "\n  sorted    by churn: 11.4 KiB allocated plus freed, in total\n"));
  CHECK(holds(churn, "\n1. 99.1 %  11.3 KiB allocated plus freed\n    live       6.3 KiB in 64"));

  const std::string json = printed([&](Writer& out) { print_json_stacks(out, input); });
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(json);
  CHECK(double(root["sort_total"]) == 11700);
  CHECK(double(root["stacks"].at(0)["sort_value"]) == 11600);
}

TEST_CASE("a stack that holds nothing is listed with what it is listed for") {
  Sample sample;
  AllocationSite& site = sample.recorded.stacks.sites[2];
  site.frees = site.allocations;
  site.freed_bytes = site.allocated_bytes;
  sample.census.stacks[2] = {};
  sample.census.live_blocks = 1;
  sample.census.live_bytes = 100;
  StackReportInput input = sample.input();
  input.sizes[0].clear();
  input.order = StackOrder::kChurn;
  const std::string text = printed([&](Writer& out) { print_stacks(out, input, {false, 80}); });
  CAPTURE(text);
  CHECK(
      holds(text, "\n1. 99.4 %  17.6 KiB allocated plus freed\n    live       0 B in 0 blocks\n"));

  const FunctionGroups groups{{{.name = "idle", .live_bytes = 100, .allocations = 1},
                               {.name = "busy", .allocations = 90, .allocated_bytes = 18000}},
                              {},
                              {}};
  const std::string by_function = printed([&](Writer& out) {
    print_stack_groups(out, input, groups, "function", {false, 80});
  });
  CAPTURE(by_function);
  CHECK(holds(by_function, "\n  99.4 %"));
  input.order = StackOrder::kRate;
  const std::string by_rate = printed([&](Writer& out) {
    print_stack_groups(out, input, groups, "function", {false, 80});
  });
  CAPTURE(by_rate);
  CHECK(holds(by_rate, "allocations  function\n"));
  CHECK(holds(by_rate, "\n  98.9 %"));
}

TEST_CASE("JSON has the exact numbers and all frames") {
  const Sample sample;
  const std::string text = printed([&](Writer& out) { print_json_stacks(out, sample.input()); });
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(text);
  CHECK(std::string_view(root["kind"]) == "stacks");
  CHECK(uint64_t(root["without_stack"]["bytes"]) == 48);
  const simdjson::dom::element first = root["stacks"].at(0);
  CHECK(uint64_t(first["stack"]) == 2);
  CHECK(double(first["live_bytes"]) == 6400);
  CHECK(uint64_t(first["sizes"].at(0)["count"]) == 64);
  CHECK(std::string_view(first["end"]) == "complete");
  CHECK(first["frames"].get_array().size() == 3);
  CHECK(bool(first["frames"].at(0)["inlined"]));
  CHECK(std::string_view(first["frames"].at(2)["address"]) == "0x40117b");
  CHECK(std::string_view(first["frames"].at(2)["module_address"]) == "0x117b");
}

TEST_CASE("the churn log has bytes and counts, since the entry before and in all") {
  Sample sample;
  const std::string text = printed([&](Writer& out) {
    ChurnLog log(out);
    log.add(sample.recorded, *sample.metadata.tracker, 11700, 4096);
    AllocationSite& site = sample.recorded.stacks.sites[2];
    site.allocations += 10;
    site.allocated_bytes += 1000;
    site.frees += 74;
    site.freed_bytes += 7400;
    log.add(sample.recorded, *sample.metadata.tracker, 8400, 4096);
  });
  CAPTURE(text);
  CHECK(holds(text,
              "\n[  0]=========================================================\n"
              "churn=11700/4096\n"));
  CHECK(holds(text, "[  1]==="));
  CHECK(holds(text,
              "} live:6400, alloc:9000/9000, free:2600/2600, live_count:64, "
              "alloc_count:90/90, free_count:26/26\n"
              "  {0} fill(Node*) (tree)\n  {1} make_node(int)+0x16 (tree)\n"
              "  {2} main\\x1b[31m+0x2b (tree)\n"));
  CHECK(holds(text,
              "} live:0, alloc:1000/10000, free:7400/10000, live_count:0, "
              "alloc_count:10/100, free_count:74/100\n"));
  // A path keeps its hash.
  const auto hash = [&](std::string_view line) {
    const size_t at = text.find(line);
    REQUIRE(at != std::string::npos);
    const size_t begin = text.rfind('{', at);
    return text.substr(begin, at - begin);
  };
  CHECK(hash("} live:6400") == hash("} live:0, alloc:1000"));
  CHECK(hash("} live:6400") != hash("} live:100,"));
}

TEST_CASE("limits and drops are said") {
  Sample sample;
  sample.metadata.tracker->limits = tracker::kLimitStacks;
  sample.metadata.tracker->dropped_slots = 3;
  sample.metadata.tracker->notes = {"the table \x01 is damaged"};
  sample.census.strange = {1, 16};
  const auto remarks = stack_remarks(sample.metadata, sample.census);
  REQUIRE(remarks.size() == 5);
  CHECK(holds(remarks[2], "limit of: stacks"));
  CHECK(holds(remarks[3], "3 blocks were not recorded"));
  CHECK(holds(remarks[4], "\\x01"));
}

TEST_CASE("one call path recorded in two ways says which") {
  test::AlikeStacks sample;
  sample.add(0x403010, "f(int)", 0x10);
  sample.recorded.stacks.sites.push_back(sample.recorded.stacks.sites.back());
  sample.recorded.stacks.sites.back().sample_bytes = 512 << 10;
  sample.census.stacks.push_back({1, 1, 10});
  const StackReportInput input = sample.input_of({4, 5, 2});
  const std::string text = printed([&](Writer& out) { print_stacks(out, input, {false, 80}); });
  CAPTURE(text);
  CHECK(holds(text, "    recorded   every allocation recorded\n"));
  CHECK(holds(text, "    recorded   one sample per 512.0 KiB on average\n"));
  CHECK(text.find("    recorded  ") != text.rfind("    recorded  "));
}

TEST_CASE("from 60 columns up no line is wider than the terminal") {
  test::AlikeStacks sample;
  const std::string name = "space::Template<int, std::allocator<Thing> >::function(Thing const&)";
  sample.add(0x403010, name, 0x10);
  sample.add(0x403020, name, 0x20);
  sample.add(0x404020, "git+0x4000()", 0x20);
  sample.census.live_bytes = 9e17;
  sample.census.stacks[4] = {1'000'000'000'000, 1e12, 8e17};
  sample.recorded.stacks.sites[4].allocations = 1'000'000'000'000'000;
  sample.recorded.stacks.sites[4].allocated_bytes = 1ULL << 62;
  TrackedThread thread{4242424,    "a thread of that", true, 1ULL << 60, 1ULL << 60,
                       1ULL << 62, 1ULL << 62,         0,    1ULL << 60};
  sample.metadata.tracker->threads = {thread};
  const StackReportInput input = sample.input_of({4, 5, 6, 2, 3});
  FunctionGroups groups;
  for (const uint32_t id : input.ranked) {
    groups.groups.push_back({.name = name + std::to_string(id),
                             .is_function = true,
                             .live_bytes = sample.census.stacks[id].live_bytes,
                             .live_blocks = sample.census.stacks[id].live_blocks,
                             .allocated_bytes = 4e18});
  }
  groups.groups.push_back({.name = "functions without a name in /opt/a/long/path/to/program"});
  groups.passed = {{"git+0x4000()", 12}};
  groups.suspect = CommonAllocator{name, 20};
  for (unsigned width = 60; width <= 200; width += width < 100 ? 1 : 20) {
    CAPTURE(width);
    for (const std::string& text :
         {printed([&](Writer& out) {
            print_stacks(out, input, {false, width});
          }),
          printed([&](Writer& out) {
            print_stack_groups(out, input, groups, "function", {false, width});
          }),
          printed([&](Writer& out) {
            print_tracked_threads(out, input, std::array{0U}, {false, width});
          })}) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        CHECK(display_width(line) <= width);
      }
    }
  }
  const std::string text = printed([&](Writer& out) {
    print_stack_groups(out, input, groups, "function", {false, 80});
  });
  CHECK(holds(text, "--pass-over '!git+0x4000'"));
  CHECK(holds(text, "--pass-over 'space::Template::function'"));
}

TEST_CASE("as many threads are listed as are asked for, and stacks that end early are explained") {
  Sample sample;
  auto& threads = sample.metadata.tracker->threads;
  threads = {{11, "small", false, 9, 1, 100, 50, 0, 0}, {12, "large", false, 2, 1, 900, 50, 0, 0}};
  const auto listed = [&](size_t limit) {
    return printed([&](Writer& out) {
      const auto ranked = ranked_threads(threads, StackOrder::kLiveBytes, limit);
      print_tracked_threads(out, sample.input(), ranked, {false, 80});
    });
  };
  CHECK(ranked_threads(threads, StackOrder::kRate, 0) == std::vector<uint32_t>{0, 1});
  CHECK(holds(listed(0), "small"));
  CHECK_FALSE(holds(listed(0), "more thread"));
  CHECK_FALSE(holds(listed(0), "truncated"));
  CHECK(holds(listed(1), "large"));
  CHECK_FALSE(holds(listed(1), "small"));
  CHECK(holds(listed(1), "  1 more thread: --all\n"));
  threads[0].truncated = 3;
  CHECK(holds(listed(1), "truncated: allocations whose stacks lack the outer frames"));
}

TEST_CASE(
    "the first screen says who allocated the blocks in use, and who allocates blocks of the sizes "
    "of old ones") {
  Sample sample;
  sample.metadata.mappings.resize(1);
  sample.metadata.mappings[0].path = "/memfd:libheapsnap_tracker.so";
  sample.metadata.mappings[0].inode = 1;
  StackReportInput stacks = sample.input();
  stacks.old_blocks = {{112, {9936, 9936 * 112}, 64, 2}};
  HeapSummary summary;
  StateFigures& used = summary.totals[static_cast<size_t>(ChunkState::kUsed)];
  used.chunks = {70, 2 << 20};
  summary.used_sizes = {{112, 120, {10000, 1120000}, {}}, {2048, 4096, {300, 700000}, {}}};
  summary.shares.resize(1);
  const RssAccount account = account_rss(sample.metadata, summary);
  const std::vector<Advice> advice;
  ReportInput input{sample.metadata, summary, account, advice, "a.hsnap", 1};
  input.stacks = &stacks;
  const auto screen = [&] {
    return printed([&](Writer& out) { print_first_screen(out, input, {false, 80}); });
  };
  const std::string text = screen();
  CAPTURE(text);
  CHECK(holds(text,
              "\nBlocks in use, by size (malloc's header included)\n"
              "  53.4 %    1.1 MiB  10,000 blocks  of 112 B\n"
              "  33.4 %  683.6 KiB     300 blocks  of 2.0 KiB to 4.0 KiB\n"
              "\nBlocks in use, by who allocated them\n"
              "  untracked  48 B in 2 blocks (allocated before inject)\n"
              "             9,936 of 112 B, caller unknown; all 64 newer ones in use were\n"
              "             allocated by fill(Node*)\n"
              "  tracked    6.3 KiB in 65 blocks\n"
              "  98.5 %  6.3 KiB  64 blocks  fill(Node*) node.h:7\n"
              "   1.5 %    100 B    1 block  tree+0x2222\n"));
  // Where most blocks have a stack, their sizes say less than who allocated them.
  used.chunks = {70, 8192};
  CHECK_FALSE(holds(screen(), "by size"));
  sample.metadata.tracker->sample_bytes = 4096;
  sample.metadata.tracker->dropped_slots = 1;
  CHECK(untracked_text(sample.metadata) ==
        "allocated before inject, or not sampled, or not recorded");
  sample.metadata.mappings.clear();
  CHECK(untracked_text(sample.metadata).starts_with("allocated before tracking began"));
}
