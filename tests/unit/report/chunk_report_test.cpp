#include "report/chunk_report.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <cstring>

using namespace heapsnap;

namespace {

constexpr const char* kText = "a block of forty bytes, and no byte more";

struct ChunkSample {
  SnapshotMetadata metadata;
  RecordedStacks recorded;
  FoundChunk chunk;

  ChunkSample() {
    metadata.process.pid = 42;
    metadata.process.comm = "server\x1b[2J";
    metadata.heap.arenas.resize(1);
    metadata.heap.arenas[0].is_main = true;
    chunk.range = {Address(0x10000), Address(0x10030)};
    chunk.pointer = Address(0x10010);
    chunk.size = 0x30;
    chunk.usable = 40;
    chunk.state = ChunkState::kUsed;
    chunk.arena = 0;
  }

  // The block was allocated by main, which asked for 37 bytes.
  void track() {
    metadata.tracker.emplace();
    metadata.tracker->modules.push_back(
        {"/opt/server", "ab", 0x400000, {Address(0x400000), Address(0x500000)}, 1, 0});
    recorded.stacks.nodes.resize(tracker::kFirstNode);
    recorded.stacks.nodes.push_back({tracker::kRootComplete, 0, Address(0x40117b)});
    recorded.stacks.sites.resize(tracker::kFirstStack);
    recorded.stacks.sites.push_back({tracker::kFirstNode, 2, 0, 1, 0, 37, 0});
    chunk.stack = tracker::kFirstStack;
    chunk.slack = 3;
  }

  ChunkReportInput input(uint64_t at, uint64_t byte_limit = 4096) const {
    const auto read = [](const AddressRange& range, const ReceiveContents& receive) {
      const auto bytes = std::as_bytes(std::span(kText, std::strlen(kText)));
      receive(range.begin, bytes.subspan(range.begin - Address(0x10010), range.size()));
    };
    return {metadata, recorded, chunk, Address(at), "my heap.hsnap", byte_limit, read};
  }
};

template <typename Print>
std::string printed_chunk(Print print) {
  std::string text;
  Writer out(text);
  print(out);
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("the text says what the chunk is, and shows its bytes") {
  const ChunkSample sample;
  const std::string text = printed_chunk([&](Writer& out) {
    print_chunk(out, sample.input(0x10011), {false, 80});
  });
  CHECK(text ==
        "Process 42: server\\x1b[2J\n"
        "  block      0x10010, 40 B usable\n"
        "  address    0x10011, 1 byte into it\n"
        "  chunk      48 B with its header\n"
        "  state      in use\n"
        "  arena      0 (main)\n"
        "\n"
        "Contents, 40 B\n"
        "00000000  61 20 62 6c 6f 63 6b 20  6f 66 20 66 6f 72 74 79  |a block of forty|\n"
        "00000010  20 62 79 74 65 73 2c 20  61 6e 64 20 6e 6f 20 62  | bytes, and no b|\n"
        "00000020  79 74 65 20 6d 6f 72 65                           |yte more|\n"
        "00000028\n");
}

TEST_CASE("where references were taken, the next step is what keeps the block alive") {
  ChunkSample sample;
  const auto text_of = [&] {
    return printed_chunk([&](Writer& out) {
      print_chunk(out, sample.input(0x10011), {false, 80});
    });
  };
  sample.metadata.references.emplace().is_complete = true;
  CHECK(text_of().ends_with("    heapsnap why 0x10010 'my heap.hsnap'\n"));
  sample.chunk.state = ChunkState::kTcache;
  CHECK(text_of().find("heapsnap why") == std::string::npos);
}

TEST_CASE("of a large block the first bytes are printed, or those from the address on") {
  const ChunkSample sample;
  const auto text_of = [&](uint64_t at) {
    return printed_chunk([&](Writer& out) { print_chunk(out, sample.input(at, 16), {false, 80}); });
  };
  const std::string first = text_of(0x1001f);
  CAPTURE(first);
  CHECK(first.find("Contents, 16 B of 40 B\n00000000  61") != std::string::npos);
  CHECK(first.find("|a block of forty|\n00000010\n\nAll of it:\n"
                   "  heapsnap report 'my heap.hsnap' --at 0x10010 --bytes 40\n") !=
        std::string::npos);
  const std::string later = text_of(0x10020);
  CAPTURE(later);
  CHECK(later.find("\n00000010  20 62") != std::string::npos);
  CHECK(later.find("|a block") == std::string::npos);
  const std::string last = text_of(0x10037);
  CAPTURE(last);
  CHECK(last.find("|yte more|\n00000028\n") != std::string::npos);
  const std::string header = text_of(0x10000);
  CAPTURE(header);
  CHECK(header.find("0x10000, 16 bytes before it") != std::string::npos);
  CHECK(header.find("|a block of forty|") != std::string::npos);
}

TEST_CASE("a tracked block comes with the stack that allocated it, in JSON, too") {
  ChunkSample sample;
  sample.track();
  const std::string text = printed_chunk([&](Writer& out) {
    print_chunk(out, sample.input(0x10010), {false, 80});
  });
  CAPTURE(text);
  CHECK(text.find("  asked for  37 B\n\nAllocated by\n  server+0x117b\n\nContents") !=
        std::string::npos);

  const std::string json =
      printed_chunk([&](Writer& out) { print_json_chunk(out, sample.input(0x10025, 16)); });
  CAPTURE(json);
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(json);
  CHECK(std::string_view(root["kind"]) == "chunk-contents");
  CHECK(std::string_view(root["at"]) == "0x10025");
  CHECK(std::string_view(root["addr"]) == "0x10010");
  CHECK(uint64_t(root["size"]) == 48);
  CHECK(uint64_t(root["usable"]) == 40);
  CHECK(std::string_view(root["state"]) == "used");
  CHECK(uint64_t(root["requested"]) == 37);
  CHECK(uint64_t(root["stack"]) == tracker::kFirstStack);
  CHECK(std::string_view(root["frames"].at(0)["address"]) == "0x40117b");
  CHECK(std::string_view(root["end"]) == "complete");
  CHECK(uint64_t(root["shown"]) == 16);
  CHECK(std::string_view(root["contents"].at(0)["addr"]) == "0x10020");
  CHECK(std::string_view(root["contents"].at(0)["hex"]) == "2062797465732c20616e64206e6f2062");
}

TEST_CASE("a block without a known stack says why, and a free chunk has none to name") {
  ChunkSample sample;
  sample.track();
  sample.chunk.stack = 0;
  const auto text_of = [&] {
    return printed_chunk([&](Writer& out) {
      print_chunk(out, sample.input(0x10010), {false, 80});
    });
  };
  CHECK(text_of().find("Allocated by\n  no known stack: allocated before tracking began\n") !=
        std::string::npos);
  sample.chunk.stack = 99;  // of a damaged snapshot
  CHECK(text_of().find("no known stack: the tracker's tables are damaged") != std::string::npos);
  sample.chunk.stack = 0;
  sample.chunk.state = ChunkState::kSmallbin;
  CHECK(text_of().find("Allocated by") == std::string::npos);
  CHECK(text_of().find("  state      free, in a small bin\n") != std::string::npos);
}

TEST_CASE("a snapshot without contents has no part of that name") {
  const ChunkSample sample;
  ChunkReportInput input = sample.input(0x10010);
  input.read_contents = nullptr;
  CHECK(printed_chunk([&](Writer& out) {
          print_chunk(out, input, {false, 80});
        }).find("Contents") == std::string::npos);
  const std::string json = printed_chunk([&](Writer& out) { print_json_chunk(out, input); });
  CHECK(json.find("contents\":[") == std::string::npos);
}
