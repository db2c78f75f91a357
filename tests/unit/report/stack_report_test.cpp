#include "report/stack_report.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <array>
#include <sstream>

#include "report/churn_log.h"
#include "report/stack_frames.h"
#include "report/stack_labels.h"
#include "report/stack_lines.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
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

TEST_CASE("listings say who probably allocated blocks from before the tracker") {
  const Sample sample;
  StackReportInput input = sample.input();
  input.old_blocks = {{112, {9936, 9936 * 112}, 64, 2}};
  const std::string sentence =
      "  note      untracked: 48 B in 2 blocks (allocated before tracking began)\n"
      "            9,936 of 112 B: probably allocated by fill(Node*), like all 64 newer\n"
      "            blocks of this size in use\n";
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

namespace {

// Stacks of main and f, where f was called from several places, as the sample's first two.
struct AlikeSample : Sample {
  // Adds a stack whose innermost frame returns to that address, in a function of that name.
  void add(uint64_t address, const std::string& function, uint64_t offset, uint32_t parent = 8,
           uint64_t sample_bytes = 0) {
    CallStacks& stacks = recorded.stacks;
    stacks.nodes.push_back({parent, 0, Address(address)});
    const auto node = static_cast<uint32_t>(stacks.nodes.size() - 1);
    stacks.sites.push_back({node, 2, sample_bytes, 1, 0, 10, 0});
    census.stacks.push_back({1, 1, 10});
    if (function.empty()) return;
    const SourceFrame frame{recorded.symbols.intern(function), 0, 0, offset, false};
    recorded.symbols.add(0, Address(address), {&frame, 1});
    recorded.symbols.sort();
  }
  StackReportInput input_of(std::vector<uint32_t> ranked) const {
    StackReportInput made = input();
    made.ranked = std::move(ranked);
    made.sizes.assign(made.ranked.size(), {});
    return made;
  }
  std::vector<std::string> texts(const StackReportInput& made, size_t width) const {
    const StackLines lines(made, width);
    std::vector<std::string> result;
    for (size_t i = 0; i < made.ranked.size(); ++i) {
      StackEnd end{};
      std::string text;
      for (const FrameLine& line : lines.lines_of(i, end)) {
        text += line.function + " " + line.place + "|";
        CHECK(display_width(line.function) + display_width(line.place) <= width);
      }
      result.push_back(text + to_string(end));
    }
    return result;
  }
};

}  // namespace

TEST_CASE("stacks that differ do not look alike") {
  AlikeSample sample;
  sample.add(0x403010, "f(int)", 0x10);  // 4
  sample.add(0x403020, "f(int)", 0x20);  // 5
  sample.add(0x403030, "g(int)", 0x30);  // 6
  // Alike once they are cut, offsets too.
  const std::string half(60, 'n');
  sample.add(0x404010, half + "a" + half, 0x10);  // 7
  sample.add(0x405010, half + "b" + half, 0x10);  // 8
  const auto texts = sample.texts(sample.input_of({4, 5, 6, 7, 8}), 60);
  CAPTURE(texts);
  CHECK(texts[0] == "f(int)+0x10 tree|main\\x1b[31m tree.c:40|complete");
  CHECK(texts[1] == "f(int)+0x20 tree|main\\x1b[31m tree.c:40|complete");
  CHECK(texts[2] == "g(int) tree|main\\x1b[31m tree.c:40|complete");
  CHECK(holds(texts[3], "n@0x404010 tree"));
  CHECK(holds(texts[4], "n@0x405010 tree"));
  // On a screen of its own it needs no mark.
  CHECK(sample.texts(sample.input_of({4, 6}), 60)[0] ==
        "f(int) tree|main\\x1b[31m tree.c:40|complete");
}

TEST_CASE("a function that calls itself is one line") {
  AlikeSample sample;
  const auto add_calls = [&](std::vector<uint64_t> addresses) {
    uint32_t parent = 8;
    for (const uint64_t address : addresses) {
      sample.add(address, "visit(Node*)", address & 0xff, parent);
      parent = static_cast<uint32_t>(sample.recorded.stacks.nodes.size() - 1);
    }
    return static_cast<uint32_t>(sample.recorded.stacks.sites.size() - 1);
  };
  const uint32_t deep = add_calls(std::vector<uint64_t>(12, 0x403010));
  const uint32_t flat = add_calls({0x403010});
  const uint32_t left = add_calls({0x403010, 0x403020});
  const uint32_t right = add_calls({0x403020, 0x403010});
  const auto text_of = [&](std::vector<uint32_t> ranked, size_t index) {
    return sample.texts(sample.input_of(std::move(ranked)), 60)[index];
  };
  const std::string in_main = "main\\x1b[31m tree.c:40|complete";
  CHECK(text_of({deep, flat}, 0) == "visit(Node*) × 12 tree|" + in_main);
  CHECK(text_of({deep, flat}, 1) == "visit(Node*) tree|" + in_main);
  CHECK(text_of({left}, 0) == "visit(Node*) × 2 tree|" + in_main);
  // By turns from two places: what tells two stacks apart is shown.
  CHECK(text_of({left, right}, 0) == "visit(Node*)+0x20 tree|visit(Node*)+0x10 tree|" + in_main);
  CHECK(text_of({left, right}, 1) == "visit(Node*)+0x10 tree|visit(Node*)+0x20 tree|" + in_main);
  // However little room there is, the number is shown.
  StackEnd end{};
  CHECK(StackLines(sample.input_of({deep}), 24).lines_of(0, end)[0].function.ends_with(" × 12"));

  CHECK(stack_labels(sample.input_of({deep, flat}), 60) ==
        std::vector<std::string>{"visit(Node*) × 12", "visit(Node*)"});
  CHECK(charged_function(sample.input_of({}), deep) == "visit(Node*)");
}

namespace {

std::string texts_of(const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) text += label + "\n";
  return text;
}

}  // namespace

TEST_CASE("what tells stacks apart inside of the charged frame stays when its callers do, too") {
  AlikeSample sample;
  std::vector<uint32_t> ranked;
  const auto add = [&](uint64_t address, const char* name, uint64_t offset, uint32_t parent) {
    sample.add(address, name, offset, parent);
    return static_cast<uint32_t>(sample.recorded.stacks.nodes.size() - 1);
  };
  for (const uint64_t call : {0x16, 0x73}) {
    const uint32_t serve = add(0x402000 + call, "serve()", call, 8);
    const uint32_t handle = add(0x403010, "handle(int)", 0x10, serve);
    for (const char* inside :
         {"std::vector::resize(unsigned long)", "std::string::assign(unsigned long, char)"}) {
      add(inside[5] == 'v' ? 0x404010 : 0x405010, inside, 0x10, handle);
      ranked.push_back(static_cast<uint32_t>(sample.recorded.stacks.sites.size() - 1));
    }
  }
  CHECK(texts_of(stack_labels(sample.input_of(ranked), 80)) ==
        "std::vector::resize(…) ← handle(int) ← serve()+0x16\n"
        "std::string::assign(…) ← handle(int) ← serve()+0x16\n"
        "std::vector::resize(…) ← handle(int) ← serve()+0x73\n"
        "std::string::assign(…) ← handle(int) ← serve()+0x73\n");
}

TEST_CASE("of three stacks each is told apart by what was called") {
  AlikeSample sample;
  sample.add(0x403010, "handle(int)", 0x10);
  const auto charged = static_cast<uint32_t>(sample.recorded.stacks.nodes.size() - 1);
  sample.add(0x404010, "std::map<int, int>::rehash()", 0x10, charged);  // 5
  sample.add(0x405010, "std::map<int, int>::node()", 0x10, charged);
  const auto node = static_cast<uint32_t>(sample.recorded.stacks.nodes.size() - 1);
  sample.add(0x406010, "std::allocator<int>::allocate()", 0x10, node);   // 7
  sample.add(0x407010, "std::allocator<int>::construct()", 0x10, node);  // 8
  CHECK(texts_of(stack_labels(sample.input_of({5, 7, 8}), 80)) ==
        "std::map<int, int>::rehash() ← handle(int)\n"
        "std::allocator<int>::allocate() ← handle(int)\n"
        "std::allocator<int>::construct() ← handle(int)\n");
}

TEST_CASE("one call path recorded in two ways says which") {
  AlikeSample sample;
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

TEST_CASE("a line a stack has its charged frame, and as much of its callers as it takes") {
  AlikeSample sample;
  sample.add(0x403100, "parse(int)", 0x10);                    // 4: node 12
  sample.add(0x404100, "load(int)", 0x10);                     // 5: node 13
  sample.add(0x405100, "operator new(unsigned long)", 0, 12);  // 6
  sample.add(0x405200, "operator new(unsigned long)", 0, 13);  // 7
  sample.add(0x406000, "make()", 0, 12);                       // 8
  sample.add(0x406000, "", 0, 13);                             // 9: make() in load()
  sample.add(0x407000, "git+0x7000()", 0x10, 12);              // 10
  sample.add(0x407010, "git+0x7000()", 0x20, 12);              // 11
  const auto labels = [&](std::vector<uint32_t> ranked) {
    return stack_labels(sample.input_of(std::move(ranked)), 60);
  };
  CHECK(labels({2, 6, 7}) ==
        std::vector<std::string>{"fill(Node*) node.h:7", "parse(int)", "load(int)"});
  CHECK(labels({8, 9}) == std::vector<std::string>{"make() ← parse(int)", "make() ← load(int)"});
  CHECK(labels({10, 11}) == std::vector<std::string>{"git+0x7000()+0x10", "git+0x7000()+0x20"});
  CHECK(labels({4, 4}) == std::vector<std::string>{"parse(int)", "parse(int) (stack 2)"});
}

TEST_CASE("from 60 columns up no line is wider than the terminal") {
  AlikeSample sample;
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
    "the first screen says who allocated the blocks in use, and of old ones who probably did") {
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
              "             9,936 of 112 B: probably allocated by fill(Node*), like all 64\n"
              "             newer blocks of this size in use\n"
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
