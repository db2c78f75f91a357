// Sections on their way: spooled, encoded, decoded.
#include <doctest/doctest.h>
#include <stdlib.h>

#include "base/error.h"
#include "snapshot/section_encoder.h"
#include "snapshot/section_spool.h"
#include "snapshot/section_view.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

Section random_section(std::mt19937_64& random, size_t longest) {
  Section section;
  section.kind = static_cast<format::SectionKind>(1 + random() % 6);
  section.items = static_cast<uint32_t>(random());
  section.begin = Address(random());
  section.columns.resize(random() % 4);
  for (auto& column : section.columns) {
    column.id = static_cast<uint16_t>(&column - section.columns.data() + 1);
    column.bytes.resize(random() % (longest + 1));
    const unsigned variety = random() % 2 == 0 ? 3 : 256;
    for (auto& byte : column.bytes) byte = static_cast<std::byte>(random() % variety);
  }
  return section;
}

bool is_same(const Section& a, const Section& b) {
  bool same = a.kind == b.kind && a.items == b.items && a.begin == b.begin &&
              a.columns.size() == b.columns.size();
  for (size_t i = 0; same && i < a.columns.size(); ++i) {
    same = a.columns[i].id == b.columns[i].id && a.columns[i].bytes == b.columns[i].bytes;
  }
  return same;
}

class Collector final : public SectionSink {
 public:
  void add(const Section& section) override { sections.push_back(section); }
  std::vector<Section> sections;
};

}  // namespace

TEST_CASE("encoded sections decode to what they were") {
  std::mt19937_64 random(3);
  SectionEncoder encoder;
  ColumnReader reader(1U << 20);
  for (int i = 0; i < 300; ++i) {
    const Section section = random_section(random, i < 250 ? 200 : 100000);
    const auto bytes = encoder.encode(section);
    const SectionView view(bytes, "test");
    CHECK(view.kind() == section.kind);
    CHECK(view.items() == section.items);
    CHECK(view.length() == bytes.size());
    bool same = true;
    for (const auto& column : section.columns) {
      Bytes buffer;
      const auto raw = reader.read(view, column.id, "test", buffer);
      same = same && Bytes(raw.begin(), raw.end()) == column.bytes;
    }
    CHECK(same);
    Bytes buffer;
    CHECK(reader.read(view, 999, "test", buffer).empty());
  }
}

TEST_CASE("a column that is too long is a bug of ours") {
  Section section;
  section.columns.push_back({1, Bytes(format::kMaxColumnSize + 1)});
  CHECK_THROWS_AS(SectionEncoder().encode(section), Error);
}

TEST_CASE("a spool gives sections back in order, from memory and from a file") {
  std::mt19937_64 random(4);
  const TemporaryDirectory directory;
  for (const size_t memory : {size_t{0}, size_t{5000}, size_t{1} << 30}) {
    SectionSpool spool(directory.path(), memory);
    for (int round = 0; round < 2; ++round) {
      CHECK(spool.is_empty());
      std::vector<Section> wrote;
      for (int i = 0; i < 100; ++i) {
        wrote.push_back(random_section(random, 1000));
        spool.add(wrote.back());
      }
      CHECK_FALSE(spool.is_empty());
      CHECK(directory.names().empty());  // the file has no name
      Collector collector;
      spool.drain(collector);
      bool same = collector.sections.size() == wrote.size();
      for (size_t i = 0; same && i < wrote.size(); ++i) {
        same = is_same(wrote[i], collector.sections[i]);
      }
      CHECK(same);
    }
  }
}

TEST_CASE("a spool falls back to $TMPDIR") {
  std::mt19937_64 random(5);
  const TemporaryDirectory directory;
  const char* before = ::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", directory.path().c_str(), 1);
  for (const char* place : {"", "/nonexistent", "/proc"}) {
    SectionSpool spool(place, 0);
    const Section wrote = random_section(random, 1000);
    spool.add(wrote);
    Collector collector;
    spool.drain(collector);
    REQUIRE(collector.sections.size() == 1);
    CHECK(is_same(collector.sections[0], wrote));
  }
  if (before != nullptr) {
    ::setenv("TMPDIR", kept.c_str(), 1);
  } else {
    ::unsetenv("TMPDIR");
  }
}

TEST_CASE("deferred or not, the file is the same byte for byte") {
  const TemporaryDirectory directory;
  const auto write = [&directory](const std::string& name, int defer_at, int resume_at) {
    std::mt19937_64 random(6);
    SnapshotWriter writer({directory.file(name), false});
    OwnedBatch batch = random_batch(random, Address(0x1000), 4096, 16, 1000, 5);
    std::vector<uint64_t> contents(2U << 17);  // 2 MiB
    std::vector<PageState> pages(100, PageState::kResident);
    for (int i = 0; i < 300; ++i) {
      if (i == defer_at) writer.set_deferred(true);
      if (i == resume_at) writer.set_deferred(false);
      writer.on_batch(batch.view());
      batch.begin = batch.end() + (i % 7 == 0 ? 64 : 0);
      writer.on_pages(Address(0x1000000ULL * static_cast<uint64_t>(i)), 4096, pages);
      if (i % 30 == 0) {  // 20 MiB in all: more than the spool keeps in memory
        for (auto& word : contents) word = random();
        writer.on_contents(Address(0x1000000ULL * static_cast<uint64_t>(i)),
                           std::as_bytes(std::span(contents)));
      }
      writer.on_mmapped({batch.begin, batch.begin, 1, 2, 3, ChunkState::kMmapped, 0});
    }
    writer.finish(full_metadata(1, 1));
    return read_file(directory.file(name));
  };
  const auto at_once = write("at_once", -1, -1);
  CHECK(write("deferred", 0, -1) == at_once);
  CHECK(write("between", 100, 200) == at_once);
  CHECK(read_all(SnapshotReader::open(directory.file("between"))).chunks.size() == 300 * 4096);
}

TEST_CASE("chunks of random sizes cost less than a byte each") {
  const TemporaryDirectory directory;
  for (const auto& [low, high] : {std::pair{16, 1024}, {32, 512}}) {
    std::mt19937_64 random(7);
    constexpr size_t kChunks = 500000;
    const OwnedBatch batch =
        random_batch(random, Address(0x1000), kChunks, static_cast<uint64_t>(low),
                     static_cast<uint64_t>(high), 7);
    SnapshotWriter writer({directory.file("a"), true});
    writer.on_batch(batch.view());
    CHECK(writer.finish(full_metadata(1, 1)) < kChunks);
  }
}
