#include "references/file_memory.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/heap/sparse_target.h"

using namespace heapsnap;

namespace {

constexpr Address kList{0x404000};
constexpr Address kFile{0x560000010000};
constexpr Address kBuffer{0x560000020000};
constexpr uint64_t kMagic = 0xfbad2488;

// One FILE, of the buffer above with 4,096 bytes.
struct FileInMemory {
  SparseTarget target{Machine::kX86_64};
  BlockTypeList types;

  FileInMemory() {
    target.map(kList, 0x1000);
    target.map(kFile, 0x1000);
    target.put_word(kList, kFile.value());
    put(0, kMagic);
    put(7, kBuffer.value());
    put(8, kBuffer.value() + 4096);
  }
  void put(unsigned word, uint64_t value) { target.put_word(kFile + uint64_t{8} * word, value); }
  FileMemory find() {
    return find_file_memory(target, std::vector<FileList>{{kList, "libc.so.6"}}, types);
  }
  // Offsets in the buffer of what is unset there.
  std::vector<uint64_t> unset_in_buffer() {
    std::vector<uint64_t> offsets;
    for (const AddressRange& range : find().unset) {
      if (range.is_empty() || range.begin < kBuffer || range.begin > kBuffer + 4096) continue;
      offsets.push_back(range.begin - kBuffer);
      offsets.push_back(range.end - kBuffer);
    }
    return offsets;
  }
};

}  // namespace

TEST_CASE("of a buffer, what waits to be read or written may be references") {
  FileInMemory file;
  CHECK(file.unset_in_buffer() == std::vector<uint64_t>{0, 4096});
  SUBCASE("read ahead") {
    file.put(1, kBuffer.value() + 64);
    file.put(2, kBuffer.value() + 128);
  }
  SUBCASE("not written yet") {
    file.put(4, kBuffer.value() + 64);
    file.put(5, kBuffer.value() + 128);
  }
  CHECK(file.unset_in_buffer() == std::vector<uint64_t>{0, 64, 128, 4096});
}

TEST_CASE("pointers out of the buffer say nothing of it") {
  FileInMemory file;
  file.put(1, kBuffer.value() + 64);
  file.put(2, kBuffer.value() + 5000);
  CHECK(file.unset_in_buffer() == std::vector<uint64_t>{0, 4096});
}

TEST_CASE("a buffer of the program's own is memory like any other") {
  FileInMemory file;
  file.put(0, kMagic | 1);
  CHECK(file.find().buffers.empty());
  CHECK(file.unset_in_buffer().empty());
}

TEST_CASE("a list of files that leads in a circle ends where it began") {
  FileInMemory file;
  file.put(13, kFile.value());
  CHECK(file.find().buffers.size() == 1);
}
