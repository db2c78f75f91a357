#include "report/ptmallocdump_export.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "report/kept_contents.h"
#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using test::HandmadeSnapshot;

namespace {

std::string dumped(const HandmadeSnapshot& snapshot, DumpedHeaps heaps = DumpedHeaps::kAll) {
  std::string text;
  Writer out(text);
  export_ptmallocdump(snapshot.streams(), heaps, out);
  out.flush();
  return text;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

HandmadeSnapshot two_heaps() {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x20, ChunkState::kUsed},
                        {0x30, ChunkState::kTcache},
                        {0x40, ChunkState::kUsed},
                        {0x50, ChunkState::kSmallbin},
                        {0x10, ChunkState::kFence},
                        {0x2f10, ChunkState::kTop}});
  snapshot.add_pages(0x10000, 0x11000, PageState::kResident);
  snapshot.add_pages(0x11000, 0x12000, PageState::kAbsent);
  snapshot.add_pages(0x12000, 0x13000, PageState::kSwapped);
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x4000030, {{0x1fd0, ChunkState::kTop}});
  snapshot.metadata.heap.segments[1].system_bytes = 0x2000;
  snapshot.mmapped.push_back(
      {Address(0x3000000), Address(0x3000000), 0x2000, 0x2000, 0x1ff0, ChunkState::kMmapped, 0});
  snapshot.add_pages(0x3000000, 0x3002000, PageState::kResidentHuge);
  return snapshot;
}

constexpr const char* kMainHeap =
    "Heap  0x10000 size      12288 bytes:\n"
    "Pages in use for 0x10000-0x13000: 101\n"
    "chunk 0x10000 size         32 bytes          ?\n"
    "chunk 0x10020 size         48 bytes [free] \n"
    "chunk 0x10050 size         64 bytes          ?\n"
    "chunk 0x10090 size         80 bytes [free] \n"
    "chunk 0x100e0 size         16 bytes (fence)\n"
    "chunk 0x100f0 size      12048 bytes (top)  \n";
constexpr const char* kOtherHeaps =
    "Heap  0x4000000 size       8192 bytes:\n"
    "Pages in use for 0x4000000-0x4002000: ??\n"
    "chunk 0x4000030 size       8144 bytes (top)  \n"
    "Heap  0x3000000 size       8192 bytes:\n"
    "Pages in use for 0x3000000-0x3002000: 11\n"
    "chunk 0x3000000 size       8192 bytes          ?\n";

}  // namespace

TEST_CASE("the text is the dumper's") {
  CHECK(dumped(two_heaps()) == std::string(kMainHeap) + kOtherHeaps);
}

TEST_CASE("the dumper's two functions wrote a part each") {
  CHECK(dumped(two_heaps(), DumpedHeaps::kMain) == kMainHeap);
  CHECK(dumped(two_heaps(), DumpedHeaps::kNonMain) == kOtherHeaps);
}

TEST_CASE("kept contents are previewed as the dumper did") {
  HandmadeSnapshot snapshot = two_heaps();
  snapshot.contents[Address(0x10010)] =
      bytes_of(std::string_view("hello\0\xff\x01wo~ld ABCDEF", 20));
  // Nothing is kept of the last eight bytes of the second used chunk's preview.
  snapshot.contents[Address(0x10050)] = bytes_of(std::string(24, 'z'));
  snapshot.contents[Address(0x3000000)] = bytes_of(std::string(0x2000, 'm'));
  const std::string text = dumped(snapshot);
  CHECK(text.find("chunk 0x10000 size         32 bytes          hello0..wo~ld AB\n") !=
        std::string::npos);
  CHECK(text.find("chunk 0x10050 size         64 bytes          zzzzzzzz????????\n") !=
        std::string::npos);
  CHECK(text.find("chunk 0x3000000 size       8192 bytes          mmmmmmmmmmmmmmmm\n") !=
        std::string::npos);
}

TEST_CASE("after a hole in a segment a heap begins anew") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{0x20, ChunkState::kUsed}});
  snapshot.metadata.heap.segments[0].range.end = Address(0x12000);
  HandmadeSnapshot::Batch second = snapshot.batches[0];
  second.begin = Address(0x11000);
  snapshot.batches.push_back(second);
  CHECK(dumped(snapshot) ==
        "Heap  0x10000 size       8192 bytes:\n"
        "Pages in use for 0x10000-0x12000: ??\n"
        "chunk 0x10000 size         32 bytes          ?\n"
        "Heap  0x11000 size       4096 bytes:\n"
        "Pages in use for 0x11000-0x12000: ?\n"
        "chunk 0x11000 size         32 bytes          ?\n");
}

TEST_CASE("a page list has no end at 512 MiB") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  constexpr uint64_t kGiB = 1 << 30;
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{kGiB, ChunkState::kTop}});
  snapshot.add_pages(0x10000, 0x10000 + kGiB, PageState::kResident);
  const std::string text = dumped(snapshot);
  CHECK(static_cast<size_t>(std::count(text.begin(), text.end(), '1')) > kGiB / 4096);
  CHECK(text.find(": " + std::string(kGiB / 4096, '1') + "\n") != std::string::npos);
}

TEST_CASE("contents are read forward, across blocks and holes") {
  HandmadeSnapshot snapshot;
  for (uint64_t i = 0; i < 5; ++i) {
    snapshot.contents[Address(i << 24)] = bytes_of(std::string(900000, static_cast<char>('a' + i)));
  }
  const SnapshotStreams streams = snapshot.streams();
  KeptContents contents(streams);
  CHECK_FALSE(contents.is_empty());
  std::byte bytes[4];
  bool kept[4];
  const auto read = [&](uint64_t from) {
    contents.read(Address(from), bytes, kept);
    std::string seen;
    for (int i = 0; i < 4; ++i) seen += kept[i] ? static_cast<char>(bytes[i]) : '?';
    return seen;
  };
  CHECK(read(2) == "aaaa");
  CHECK(read(899998) == "aa??");
  CHECK(read((3 << 24) - 2) == "??dd");
  CHECK(read(1 << 24) == "????");  // gone by
  CHECK(read((4 << 24) + 899999) == "e???");
  CHECK(read(uint64_t{1} << 40) == "????");
}

TEST_CASE("contents that nobody reads to the end do not hang") {
  HandmadeSnapshot snapshot;
  for (uint64_t i = 0; i < 50; ++i) {
    snapshot.contents[Address(i << 24)] = std::vector<std::byte>(1 << 20);
  }
  const SnapshotStreams streams = snapshot.streams();
  KeptContents unread(streams);
  KeptContents begun(streams);
  CHECK_FALSE(begun.is_empty());
}

TEST_CASE("damage found while contents are read reaches the reader") {
  HandmadeSnapshot snapshot = two_heaps();
  SnapshotStreams streams = snapshot.streams();
  streams.read_contents = [](const ReceiveContents& receive) {
    const std::vector<std::byte> bytes(1 << 20);
    receive(Address(0x1000), bytes);
    throw Error(ErrorKind::kBadInput, "the snapshot is damaged", "for this test");
  };
  std::string text;
  Writer out(text);
  CHECK_THROWS_AS(export_ptmallocdump(streams, DumpedHeaps::kAll, out), Error);
}
