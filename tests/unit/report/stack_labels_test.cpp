// What tells call stacks apart: in the lines of their frames, and in one line each.
#include "report/stack_labels.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "report/stack_lines.h"
#include "tests/unit/report/alike_stacks.h"

using namespace heapsnap;
using test::AlikeStacks;

TEST_CASE("stacks that differ do not look alike") {
  AlikeStacks sample;
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
  CHECK(texts[3].find("n@0x404010 tree") != std::string::npos);
  CHECK(texts[4].find("n@0x405010 tree") != std::string::npos);
  // On a screen of its own it needs no mark.
  CHECK(sample.texts(sample.input_of({4, 6}), 60)[0] ==
        "f(int) tree|main\\x1b[31m tree.c:40|complete");
}

TEST_CASE("a function that calls itself is one line") {
  AlikeStacks sample;
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
  AlikeStacks sample;
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
  AlikeStacks sample;
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

TEST_CASE("a line a stack has its charged frame, and as much of its callers as it takes") {
  AlikeStacks sample;
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
  // A short one leaves its room to the other.
  CHECK(stack_labels(sample.input_of({8, 9}), 20) ==
        std::vector<std::string>{"make() ← parse(int)", "make() ← load(int)"});
  CHECK(labels({4, 4}) == std::vector<std::string>{"parse(int)", "parse(int) (stack 2)"});
}
