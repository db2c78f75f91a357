// What is printed of a tracked process's leaks and owners: by what allocated them.
#include <doctest/doctest.h>

#include <string>

#include "analysis/leak_census.h"
#include "analysis/owner_tree.h"
#include "report/number_text.h"
#include "report/reference_report.h"
#include "report/stack_lines.h"
#include "tests/unit/analysis/handmade_references.h"
#include "tests/unit/report/alike_stacks.h"
#include "tests/unit/report/reported_heap.h"
#include "tests/unit/report/says.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// Stacks of main, handle and a dozen frames of a library that allocates for it.
struct LibraryStacks : AlikeStacks {
  uint32_t handle = 0;  // its node

  LibraryStacks() { handle = call(0x403010, "handle(int)", 8); }
  uint32_t call(uint64_t address, const std::string& function, uint32_t caller) {
    add(address, function, address & 0xff, caller);
    return static_cast<uint32_t>(recorded.stacks.nodes.size() - 1);
  }
  // The stack `frames` deep in std::make<...>(), called by `caller`.
  uint32_t inside(uint32_t frames, uint64_t address, uint32_t caller) {
    for (uint32_t i = 0; i < frames; ++i, address += 0x100) {
      caller = call(address, "std::make<" + std::to_string(i) + ">()", caller);
    }
    return static_cast<uint32_t>(recorded.stacks.sites.size() - 1);
  }
  ReferenceReportInput input_of(const HandmadeHeap& heap) {
    metadata.references.emplace().is_complete = true;
    return {metadata, heap.streams, recorded, "a.hsnap"};
  }
};

}  // namespace

TEST_CASE("a stack's charged line is where the program's own code called the library") {
  LibraryStacks sample;
  const uint32_t deep = sample.inside(7, 0x410010, sample.handle);
  const uint32_t direct = 4;
  const StackReportInput input = sample.AlikeStacks::input_of({deep, direct});
  const StackLines lines(input, 80);
  CHECK(lines.charged_line(0) == 7);
  CHECK(lines.charged_line(1) == 0);
  StackEnd end{};
  CHECK(lines.lines_of(0, end)[7].function == "handle(int)");
}

TEST_CASE("frames of the program's own are shown of a leak, however deep in a library it is") {
  const auto text_of = [](uint32_t frames) {
    LibraryStacks sample;
    const uint32_t stack = sample.inside(frames, 0x410010, sample.handle);
    HandmadeHeap heap;
    heap.add(40, 0, stack);
    heap.add(56, 0, stack);
    const SnapshotStreams streams = heap.finish();
    const LeakCensus census = take_leak_census(streams, heap.streams);
    return printed_by([&](Writer& out) {
      print_leaks(out, sample.input_of(heap), census, 20, TextStyle{false, 80});
    });
  };
  const auto lines_of = [&](uint32_t frames) {
    const std::string text = text_of(frames);
    CAPTURE(text);
    REQUIRE(says(text, "  96 B in 2 blocks, 2 × 40 to 56 bytes\n"));
    const size_t begin = text.find("40 to 56 bytes\n") + 15;
    return text.substr(begin, text.find("      the largest at 0x") - begin);
  };
  const std::string own =
      "      std::make<0>()  tree\n"
      "      handle(int)  tree\n"
      "      main\\x1b[31m  tree.c:40\n";
  const std::string three =
      "      std::make<3>()  tree\n"
      "      std::make<2>()  tree\n"
      "      std::make<1>()  tree\n";
  CHECK(lines_of(0) == own.substr(own.find('\n') + 1));
  CHECK(lines_of(4) == three + own);
  CHECK(lines_of(5) == "      … 1 more\n" + three + own);
  CHECK(lines_of(9) == "      … 5 more\n" + three + own);
}

TEST_CASE("callers of the program's own code are shown, and how many are not") {
  LibraryStacks sample;
  uint32_t caller = 8;
  for (uint64_t i = 0; i < 9; ++i) {
    caller = sample.call(0x430010 + 0x100 * i, "step" + std::to_string(i) + "()", caller);
  }
  const uint32_t stack = sample.inside(5, 0x410010, caller);
  HandmadeHeap heap;
  heap.add(40, 0, stack);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  const std::string text = printed_by([&](Writer& out) {
    print_leaks(out, sample.input_of(heap), census, 20, TextStyle{false, 80});
  });
  CAPTURE(text);
  CHECK(says(text,
             "      … 4 more\n"
             "      std::make<0>()  tree\n"
             "      step8()  tree\n"
             "      step7()  tree\n"
             "      step6()  tree\n"
             "      step5()  tree\n"
             "      step4()  tree\n"
             "      … 5 more\n"));
}

TEST_CASE("owners by stack are called by what allocated them, and no two look alike") {
  LibraryStacks sample;
  const uint32_t first = sample.inside(4, 0x410010, sample.handle);
  const uint32_t other = sample.call(0x403060, "handle(int)", 8);
  const uint32_t second = sample.inside(4, 0x420010, other);
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("Session");
  const TypeNumber cart = heap.add_type("Cart");
  const uint32_t root = heap.add_place(RootKind::kVariable, "g_all");
  heap.hold(root, heap.add(120, session, first));
  heap.hold(root, heap.add(104, session, second));
  heap.hold(root, heap.add(56, session, 0));
  heap.hold(root, heap.add(24, cart, 0));
  const SnapshotStreams streams = heap.finish();
  OwnerListing listing;
  listing.by = OwnerGrouping::kStack;
  const OwnerTree tree = make_owner_tree(streams, heap.streams, listing.by);
  const auto text_of = [&](uint32_t width) {
    return printed_by([&](Writer& out) {
      print_owners(out, sample.input_of(heap), tree, listing, TextStyle{false, width});
    });
  };
  const std::string text = text_of(80);
  CAPTURE(text);
  CHECK(says(text, "  1 × Session, handle(int)+0x10\n"));
  CHECK(says(text, "  1 × Session, handle(int)+0x60\n"));
  CHECK(says(text, "  2 × 24 to 56 bytes, no known stack\n"));  // of two types: of none
  CHECK(says(text, "heapsnap why " + address_text(heap.address_of(0)) + " a.hsnap\n"));
  // What allocated them comes before what they are.
  const std::string narrow = text_of(60);
  CAPTURE(narrow);
  CHECK(says(narrow, "  1 × Session, handle(int)+0x10\n"));
  CHECK(says(narrow, "  2 × no known stack\n"));
}

TEST_CASE("rows of owners that look alike say which of them have references") {
  HandmadeHeap heap;
  const uint32_t root = heap.add_place(RootKind::kVariable, "g_all");
  const BlockNumber table = heap.add(2000);
  heap.hold(root, table);
  for (uint32_t i = 0; i < 4; ++i) {
    const BlockNumber one = heap.add(200);
    heap.link(table, 8 + 64 * i, one);
    if (i != 0) heap.link(one, 16, heap.add(24));
  }
  heap.snapshot.metadata.references.emplace().is_complete = true;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const OwnerTree tree = make_owner_tree(streams, heap.streams, OwnerGrouping::kRoot);
  OwnerListing listing;
  listing.min_share = 0;
  const std::string text = printed_by([&](Writer& out) {
    print_owners(out, {heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"}, tree, listing,
                 TextStyle{false, 80});
  });
  CAPTURE(text);
  CHECK(says(text, "    3 × 200 bytes, in an array\n"));
  CHECK(says(text, "    1 × 200 bytes without references, in an array\n"));
}
