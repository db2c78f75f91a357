// Files that were damaged on their way: refused, never believed.
#include <doctest/doctest.h>

#include "base/error.h"
#include "crafted_file.h"
#include "snapshot/metadata_tables.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

class SectionCollector final : public SectionSink {
 public:
  void add(const Section& section) override {
    for (const auto& column : section.columns) bytes.push_back(column.bytes);
  }
  std::vector<Bytes> bytes;
};

// The whole content in a form that can be compared.
bool is_same(const Bytes& a, const Bytes& b) {
  const SnapshotReader first = SnapshotReader::from_bytes(a, "a");
  const SnapshotReader second = SnapshotReader::from_bytes(b, "b");
  const Everything x = read_all(first), y = read_all(second);
  SectionCollector m, n;
  write_metadata(first.metadata(), m);
  write_metadata(second.metadata(), n);
  bool pages = x.pages.size() == y.pages.size();
  for (size_t i = 0; pages && i < x.pages.size(); ++i) {
    pages = x.pages[i].range == y.pages[i].range && x.pages[i].state == y.pages[i].state;
  }
  return pages && x.chunks == y.chunks && x.mmapped == y.mmapped && x.contents == y.contents &&
         m.bytes == n.bytes;
}

}  // namespace

TEST_CASE("a small snapshot is small, and read") {
  const Bytes file = small_snapshot();
  CHECK(file.size() < 8192);
  CHECK(error_of(file) == "");
  CHECK(is_same(file, file));
  const Everything all = read_all(SnapshotReader::from_bytes(file, "small"));
  CHECK(all.chunks.size() == 380);
  CHECK(all.mmapped.size() == 4);
  CHECK(all.pages.size() == 10);
  CHECK(all.contents.size() == 600);
}

TEST_CASE("every length but the whole is refused") {
  const Bytes file = small_snapshot();
  size_t accepted = 0;
  for (size_t length = 0; length < file.size(); ++length) {
    if (error_of(Bytes(file.begin(), file.begin() + static_cast<ptrdiff_t>(length))).empty()) {
      ++accepted;
    }
  }
  CHECK(accepted == 0);
  Bytes longer = file;
  longer.push_back(std::byte{});
  CHECK(error_of(longer) != "");
}

TEST_CASE("what a cut-off file and what is no snapshot are told apart") {
  Bytes file = small_snapshot();
  file.resize(file.size() - 1);
  CHECK(error_of(file).find("cut off") != std::string::npos);
  CHECK(error_of(Bytes(5)).find("not a heapsnap snapshot") != std::string::npos);
  CHECK(error_of(Bytes(5000)).find("not a heapsnap snapshot") != std::string::npos);
  CHECK_THROWS_AS(SnapshotReader::open("/nonexistent/a.hsnap"), Error);
  CHECK_THROWS_AS(SnapshotReader::open("/"), Error);
}

TEST_CASE("every flipped byte is refused or harmless") {
  const Bytes file = small_snapshot();
  size_t wrong = 0;
  std::vector<size_t> harmless;
  for (size_t i = 0; i < file.size(); ++i) {
    for (const auto flip : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
      Bytes damaged = file;
      damaged[i] ^= flip;
      if (!error_of(damaged).empty()) continue;
      if (!is_same(file, damaged)) ++wrong;
      if (harmless.empty() || harmless.back() != i) harmless.push_back(i);
    }
  }
  CHECK(wrong == 0);
  // The minor version and the reserved bytes of the file header; everything else has a checksum.
  CHECK(harmless == std::vector<size_t>{10, 11, 12, 13, 14, 15});
}

TEST_CASE("a newer major version is refused, a newer minor one is read") {
  Bytes file = small_snapshot();
  file[8] = std::byte{2};
  CHECK(error_of(file).find("version 2.") != std::string::npos);
  file[8] = std::byte{1};
  file[10] = std::byte{9};
  CHECK(error_of(file) == "");
  file[8] = std::byte{0};
  CHECK(error_of(file) != "");
}
