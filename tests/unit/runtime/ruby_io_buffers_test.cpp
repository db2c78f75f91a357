#include "runtime/ruby/ruby_io_buffers.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/fake_ruby.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::FakeRuby;

TEST_CASE("buffers of Ruby's IO are its own, and hold nothing") {
  for (const auto& [major, minor] : {std::pair{2U, 7U}, {3U, 1U}, {3U, 3U}, {3U, 4U}}) {
    const std::string version = std::to_string(major) + "." + std::to_string(minor);
    CAPTURE(version);
    RuntimeObjects objects;
    FakeRuby ruby(3, 1);
    const RubyLayout layout = *ruby_layouts(major, minor).at(0);
    const uint64_t io = ruby.next_table(256);
    std::vector<uint64_t> buffers;
    for (const uint32_t pointer : {layout.io_wbuf, layout.io_rbuf, layout.io_cbuf}) {
      buffers.push_back(ruby.next_table(64));
      ruby.put(io + pointer, buffers.back());
    }
    RubyIoBuffers(ruby.target.memory(), layout, objects).add_of(Address(io));
    for (const uint64_t buffer : buffers) {
      const ObjectClass* const known = test::class_of(objects, buffer);
      REQUIRE(known != nullptr);
      CHECK(known->skip == ObjectClass::kNoReferences);
      CHECK(known->is_exact);
    }
    // The two others lie where words do.
    REQUIRE(objects.listed.size() == 1);
    CHECK(objects.listed[0].by == Address(io));
    CHECK(objects.listed[0].at == Address(buffers[1]));
    CHECK(objects.listed[0].offset == layout.io_rbuf / 8);
  }
}

TEST_CASE("an IO object of Ruby that has no buffers, or cannot be read, has none") {
  RuntimeObjects objects;
  FakeRuby ruby(3, 1);
  RubyIoBuffers buffers(ruby.target.memory(), ruby.layout, objects);
  for (const uint64_t io : {uint64_t{0}, uint64_t{8}, uint64_t{0x7000000000}}) {
    buffers.add_of(Address(io));
  }
  buffers.add_of(Address(ruby.next_table(256)));
  CHECK(objects.blocks.empty());
  CHECK(objects.listed.empty());
}
