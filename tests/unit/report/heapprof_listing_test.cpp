#include "report/heapprof_listing.h"

#include <doctest/doctest.h>

#include "tests/unit/report/sample_stacks.h"

using namespace heapsnap;
using Sample = test::SampleStacks;

namespace {

std::string listing_of(const Sample& sample, uint64_t sizes) {
  std::string text;
  Writer out(text);
  print_heapprof_listing(out, sample.input(), sizes);
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("heapprof's listing") {
  const Sample sample;
  std::string sizes = "100";
  for (int i = 1; i < 64; ++i) sizes += ", 100";
  CHECK(listing_of(sample, UINT64_MAX) == "98% 6400 [" + sizes +
                                              "]\n"
                                              "  0x401136 fill(Node*) (/src/node.h:7)\n"
                                              "  0x401136 make_node(int) (/src/tree.c:12)\n"
                                              "  0x40117b main\\x1b[31m (/src/tree.c:40)\n"
                                              "1% 100 [100]\n"
                                              "  0x402222 tree+0x2222\n"
                                              "  0x7f0000001234 0x7f0000001234\n");
}

TEST_CASE("heapprof's listing has as many sizes as are asked for") {
  const Sample sample;
  const std::string text = listing_of(sample, 3);
  CHECK(text.find("98% 6400 [100, 100, 100, ... and 61 more]\n") != std::string::npos);
  CHECK(text.find("1% 100 [100]\n") != std::string::npos);
  CHECK(listing_of(sample, 64).find(", 100]\n") != std::string::npos);
}
