#include "elf/unwind_entries.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "elf_builder.h"

using namespace heapsnap;
using namespace heapsnap::test;

extern "C" int heapsnap_unwind_test_function(int value) {
  return value * 5 + 2;
}

namespace {

constexpr uint64_t kBase = 0x10000;
constexpr uint8_t kRelative = 0x1b;  // DW_EH_PE_pcrel | DW_EH_PE_sdata4

// .eh_frame at an address, entry by entry.
class FrameBytes {
 public:
  explicit FrameBytes(uint64_t address) : address_(address) {}

  uint64_t cie(std::string_view augmentation, const std::vector<uint8_t>& data) {
    const size_t at = begin();
    put(bytes_, uint32_t{0});
    put(bytes_, uint8_t{1});
    put_text(bytes_, augmentation);
    put(bytes_, uint8_t{0});
    put(bytes_, uint8_t{1});     // code factor
    put(bytes_, uint8_t{0x78});  // data factor -8
    put(bytes_, uint8_t{16});    // return address register
    put(bytes_, static_cast<uint8_t>(data.size()));
    for (const uint8_t byte : data) put(bytes_, byte);
    finish(at);
    return at;
  }
  void fde(uint64_t cie, uint64_t function, uint32_t size) {
    const size_t at = begin();
    put(bytes_, static_cast<uint32_t>(bytes_.size() - cie));
    put(bytes_, static_cast<int32_t>(function - (address_ + bytes_.size())));
    put(bytes_, size);
    put(bytes_, uint8_t{0});
    finish(at);
  }
  Bytes bytes() const {
    Bytes all = bytes_;
    put(all, uint32_t{0});
    return all;
  }

 private:
  size_t begin() {
    put(bytes_, uint32_t{0});
    return bytes_.size() - 4;
  }
  void finish(size_t at) {
    while (bytes_.size() % 4 != 0) put(bytes_, uint8_t{0});
    put_at(bytes_, at, static_cast<uint32_t>(bytes_.size() - at - 4));
  }

  uint64_t address_;
  Bytes bytes_;
};

// A file of 0x4000 bytes of code from kBase on. `fill` makes its .eh_frame.
template <typename Fill>
Bytes file_with_frames(Fill fill) {
  constexpr uint64_t kFramesAt = 0x8000;
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  FrameBytes frames(kFramesAt);
  fill(frames);
  const Bytes bytes = frames.bytes();
  const uint64_t offset = builder.append(bytes);
  builder.segment({PT_LOAD, PF_R | PF_X, 0, kBase, 0x4000, 0x4000, 0x1000});
  builder.segment({PT_LOAD, PF_R, offset, kFramesAt, bytes.size(), bytes.size(), 0x1000});
  builder.section({".eh_frame", SHT_PROGBITS, SHF_ALLOC, kFramesAt, offset, bytes.size(), 0});
  return builder.finish();
}

UnwindEntries entries_of(const Bytes& bytes) {
  return UnwindEntries(ElfImage::from_bytes(bytes, "made"));
}

}  // namespace

TEST_CASE("the functions of this program, with section headers and without") {
  const auto file = MappedFile::open("/proc/self/exe");
  Bytes bytes(file.bytes().begin(), file.bytes().end());
  const auto image = ElfImage::from_bytes(bytes, "self");
  const ElfSymbol* const symbol = image.find_symbol("heapsnap_unwind_test_function");
  REQUIRE(symbol != nullptr);
  const CodeStretch expected{symbol->value, symbol->value + symbol->size};
  CHECK(image.entry() != 0);
  for (const bool has_sections : {true, false}) {
    CAPTURE(has_sections);
    if (!has_sections) put_at(bytes, offsetof(Elf64_Ehdr, e_shoff), uint64_t{0});
    const auto seen = ElfImage::from_bytes(bytes, "self");
    CHECK(seen.sections().empty() == !has_sections);
    const UnwindEntries entries(seen);
    CHECK(entries.entry_at(expected.begin) == expected);
    CHECK(entries.entry_at(expected.end - 1) == expected);
    CHECK(entries.entry_at(expected.end) != expected);
    CHECK(entries.entry_at(0) == std::nullopt);
  }
}

TEST_CASE("entries and what lies between them") {
  const UnwindEntries entries = entries_of(file_with_frames([](FrameBytes& frames) {
    const uint64_t cie = frames.cie("zR", {kRelative});
    frames.fde(cie, kBase + 0x200, 0x40);
    frames.fde(cie, kBase + 0x100, 0x100);
    // 'P' has a pointer of its own, 'L' an encoding.
    const uint64_t other = frames.cie("zPLR", {0x03, 1, 2, 3, 4, 0x1b, kRelative});
    frames.fde(other, kBase + 0x300, 0x10);
  }));
  CHECK(entries.entry_at(kBase + 0x1ff) == CodeStretch{kBase + 0x100, kBase + 0x200});
  CHECK(entries.entry_at(kBase + 0x200) == CodeStretch{kBase + 0x200, kBase + 0x240});
  CHECK(entries.entry_at(kBase + 0x300) == CodeStretch{kBase + 0x300, kBase + 0x310});
  CHECK(entries.entry_at(kBase + 0x250) == std::nullopt);
  CHECK(entries.gap_at(kBase + 0x250) == CodeStretch{kBase + 0x240, kBase + 0x300});
  CHECK(entries.gap_at(kBase) == CodeStretch{0, kBase + 0x100});
  CHECK(entries.gap_at(kBase + 0x400) == CodeStretch{kBase + 0x310, UINT64_MAX});
}

TEST_CASE("entries that make no sense are left out, and the others stay") {
  const UnwindEntries entries = entries_of(file_with_frames([](FrameBytes& frames) {
    const uint64_t cie = frames.cie("zR", {kRelative});
    frames.fde(cie, kBase + 0x100, 0);                  // of no code
    frames.fde(cie, kBase + 0x3ff0, 0x100);             // past the end of the code
    frames.fde(cie, 0x8000, 4);                         // not code
    frames.fde(cie, kBase + 0x200, 0xffffffff);         // of negative size
    frames.fde(cie + 4, kBase + 0x300, 0x10);           // of no CIE
    const uint64_t unknown = frames.cie("zR", {0x9b});  // a pointer to the pointer
    frames.fde(unknown, kBase + 0x400, 0x10);
    frames.fde(cie, kBase + 0x500, 0x10);
  }));
  for (uint64_t offset = 0; offset < 0x4000; ++offset) {
    const bool is_covered = offset >= 0x500 && offset < 0x510;
    REQUIRE(entries.entry_at(kBase + offset).has_value() == is_covered);
  }
  CHECK(entries_of(file_with_frames([](FrameBytes&) {})).is_empty());
}

TEST_CASE("whatever the bytes, an entry lies in the code") {
  const Bytes sound = file_with_frames([](FrameBytes& frames) {
    const uint64_t cie = frames.cie("zPLR", {0x03, 1, 2, 3, 4, 0x1b, kRelative});
    frames.fde(cie, kBase + 0x100, 0x100);
    frames.fde(cie, kBase + 0x300, 0x100);
  });
  for (size_t at = 0; at < sound.size(); ++at) {
    for (const uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      Bytes bytes = sound;
      bytes[at] = std::byte{value};
      try {
        const auto image = ElfImage::from_bytes(bytes, "damaged");
        const UnwindEntries entries(image);
        for (uint64_t address = kBase; address < kBase + 0x4000; address += 0x40) {
          const auto entry = entries.entry_at(address);
          REQUIRE((!entry || (entry->contains(address) && image.segment_of(entry->end - 1))));
          REQUIRE((entry || entries.gap_at(address).contains(address)));
        }
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::kBadInput);
      }
    }
  }
}
