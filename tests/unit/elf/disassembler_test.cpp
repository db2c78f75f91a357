#include "elf/disassembler.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "elf/elf_image.h"
#include "elf_builder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::vector<Instruction> decode(Machine machine, std::initializer_list<unsigned> code,
                                uint64_t address, uint64_t got_base = 0) {
  Bytes bytes;
  for (const unsigned byte : code) bytes.push_back(static_cast<std::byte>(byte));
  return disassemble(machine, bytes, address, got_base);
}

std::vector<Instruction> decode_words(std::initializer_list<uint32_t> words, uint64_t address) {
  Bytes bytes;
  for (const uint32_t word : words) put(bytes, word);
  return disassemble(Machine::kAarch64, bytes, address);
}

}  // namespace

TEST_CASE("x86-64: RIP-relative operands, their kind, calls and returns") {
  const auto code = decode(Machine::kX86_64,
                           {
                               0x48, 0x8d, 0x35, 0x10, 0,    0,    0,     // lea 0x10(%rip), %rsi
                               0x48, 0x8b, 0x05, 0x10, 0,    0,    0,     // mov 0x10(%rip), %rax
                               0x48, 0x89, 0x05, 0x10, 0,    0,    0,     // mov %rax, 0x10(%rip)
                               0xf0, 0x0f, 0xb1, 0x15, 0xf0, 0xff, 0xff,  // lock cmpxchg %edx,
                               0xff,                                      //   -0x10(%rip)
                               0x0f, 0x11, 0x05, 0x10, 0,    0,    0,  // movups %xmm0, 0x10(%rip)
                               0x0f, 0x10, 0x05, 0x10, 0,    0,    0,  // movups 0x10(%rip), %xmm0
                               0x83, 0x3d, 0x10, 0,    0,    0,    0x01,     // cmpl $1, 0x10(%rip)
                               0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0,    0,  // mov %fs:0x28, %rax
                               0,    0x48, 0x8b, 0x43, 0x10,                 // mov 0x10(%rbx), %rax
                               0xe8, 0x10, 0,    0,    0,                    // call +0x10
                               0x75, 0xfe,                                   // jne .
                               0xff, 0x15, 0x10, 0,    0,    0,              // call *0x10(%rip)
                               0xc3,                                         // ret
                           },
                           0x1000);
  REQUIRE(code.size() == 13);
  const auto expect = [&code](size_t i, uint64_t data, bool load, bool store) {
    CAPTURE(i);
    CHECK(code[i].data_address == data);
    CHECK(code[i].is_address_load == load);
    CHECK(code[i].is_store == store);
  };
  expect(0, 0x1017, true, false);
  expect(1, 0x101e, false, false);
  expect(2, 0x1025, false, true);
  expect(3, 0x101d - 0x10, false, true);
  expect(4, 0x1034, false, true);
  expect(5, 0x103b, false, false);
  expect(6, 0x1042, false, false);
  expect(7, 0, false, false);
  expect(8, 0, false, false);
  CHECK(code[9].is_call);
  CHECK(code[9].call_target == code[10].address + 0x10);
  CHECK_FALSE(code[10].is_call);
  CHECK(code[10].call_target == code[10].address);
  CHECK(code[11].is_call);
  CHECK(code[11].call_target == 0);
  expect(11, code[12].address + 0x10, false, false);
  CHECK(code[12].is_return);
  CHECK(code[12].address + code[12].size == 0x1000 + 77);
}

TEST_CASE("i386: absolute operands, and GOT-relative ones through whichever register holds it") {
  constexpr uint64_t kGot = 0x21cff4;
  // As in mallopt of glibc 2.36: ret, then a block that only a jump table reaches.
  const auto code = decode(Machine::kI386,
                           {
                               0x8d, 0xb3, 0xcc, 0x07, 0,    0,     // lea 0x7cc(%ebx), %esi
                               0xa1, 0x78, 0x56, 0x34, 0x12,        // mov 0x12345678, %eax
                               0x65, 0xa1, 0x14, 0,    0,    0,     // mov %gs:0x14, %eax
                               0x89, 0xdf,                          // mov %ebx, %edi
                               0xbb, 0x01, 0,    0,    0,           // mov $1, %ebx
                               0x8b, 0x43, 0x04,                    // mov 4(%ebx), %eax
                               0x89, 0x87, 0xdc, 0x01, 0,    0,     // mov %eax, 0x1dc(%edi)
                               0x8d, 0x74, 0x26, 0x00,              // lea 0(%esi,%eiz,1), %esi
                               0xc3,                                // ret
                               0x8b, 0x83, 0xf0, 0xff, 0xff, 0xff,  // mov -0x10(%ebx), %eax
                           },
                           0x9aee0, kGot);
  REQUIRE(code.size() == 10);
  CHECK(code[0].data_address == kGot + 0x7cc);
  CHECK(code[0].is_address_load);
  CHECK(code[1].data_address == 0x12345678);
  CHECK(code[2].data_address == 0);
  CHECK(code[5].data_address == 0);
  CHECK(code[6].data_address == kGot + 0x1dc);
  CHECK(code[6].is_store);
  CHECK(code[7].data_address == 0);
  CHECK(code[8].is_return);
  CHECK(code[9].data_address == kGot - 0x10);
}

TEST_CASE("i386: a register takes the GOT's address by call and add") {
  // call thunk; add $X, %eax; lea 8(%eax), %edx; call; lea 8(%eax), %edx
  constexpr uint64_t kAddress = 0x1000;
  constexpr uint64_t kGot = 0x5000;
  constexpr uint32_t kAdded = kGot - (kAddress + 5);
  const auto code = decode(Machine::kI386,
                           {0xe8,
                            0,
                            1,
                            0,
                            0,  //
                            0x05,
                            kAdded & 0xff,
                            kAdded >> 8 & 0xff,
                            0,
                            0,  //
                            0x8d,
                            0x50,
                            0x08,  //
                            0xe8,
                            0,
                            1,
                            0,
                            0,  //
                            0x8d,
                            0x50,
                            0x08},
                           kAddress, kGot);
  REQUIRE(code.size() == 5);
  CHECK(code[0].call_target == 0x1105);
  CHECK(code[2].data_address == kGot + 8);
  CHECK(code[4].data_address == 0);  // %eax did not survive the call
  // Without the GOT's address nothing is told.
  const auto blind = decode(Machine::kI386, {0x8d, 0xb3, 0xcc, 0x07, 0, 0}, kAddress);
  REQUIRE(blind.size() == 1);
  CHECK(blind[0].data_address == 0);
}

TEST_CASE("aarch64: adrp is completed by add, ldr and str, over other code and forward jumps") {
  const auto code = decode_words(
      {
          0x90000500,  // adrp x0, +0xa0000
          0x91004013,  // add  x19, x0, #0x10
          0xf9400a61,  // ldr  x1, [x19, #0x10]
          0xf9000e61,  // str  x1, [x19, #0x18]
          0xb4000061,  // cbz  x1, +12
          0x90000013,  // adrp x19, +0
          0xd65f03c0,  // ret
          0xf9400662,  // ldr  x2, [x19, #8]     only the cbz leads here
          0x94000010,  // bl   +0x40
          0xf9400401,  // ldr  x1, [x0, #8]      x0 did not survive the call
          0xeb00027f,  // cmp  x19, x0           writes no register
          0xf9400261,  // ldr  x1, [x19]
          0xf9400673,  // ldr  x19, [x19, #8]    loads over its own base
          0xf9400261,  // ldr  x1, [x19]
      },
      0x400000);
  REQUIRE(code.size() == 14);
  constexpr uint64_t kPage = 0x4a0000;
  CHECK(code[0].data_address == 0);
  CHECK(code[1].data_address == kPage + 0x10);
  CHECK(code[1].is_address_load);
  CHECK(code[2].data_address == kPage + 0x20);
  CHECK_FALSE(code[2].is_store);
  CHECK(code[3].data_address == kPage + 0x28);
  CHECK(code[3].is_store);
  CHECK(code[4].call_target == code[7].address);
  CHECK(code[6].is_return);
  CHECK(code[7].data_address == kPage + 0x18);
  CHECK(code[8].is_call);
  CHECK(code[8].call_target == code[8].address + 0x40);
  CHECK(code[9].data_address == 0);
  CHECK(code[11].data_address == kPage + 0x10);
  CHECK(code[12].data_address == kPage + 0x18);
  CHECK(code[13].data_address == 0);
}

TEST_CASE("aarch64: where two ways meet with different values, none is told") {
  const auto code = decode_words(
      {
          0x90000513,  // adrp x19, +0xa0000
          0x90000514,  // adrp x20, +0xa0000
          0xb4000041,  // cbz  x1, +8
          0x90000013,  // adrp x19, +0
          0xf9400661,  // ldr  x1, [x19, #8]
          0xf9400681,  // ldr  x1, [x20, #8]
      },
      0x400000);
  REQUIRE(code.size() == 6);
  CHECK(code[4].data_address == 0);
  CHECK(code[5].data_address == 0x4a0008);
}

TEST_CASE("aarch64: instructions newer than the decoder are stepped over, undefined ones end") {
  const auto code = decode_words({0x90000500,  // adrp x0, +0xa0000
                                  0x88a17c02,  // cas w1, w2, [x0]
                                  0x91004001,  // add x1, x0, #0x10
                                  0x00000000,  // udf #0
                                  0x91004001},
                                 0x400000);
  // The cas may have written x0 for all that is known.
  REQUIRE(code.size() == 3);
  CHECK(code[1].size == 4);
  CHECK(code[1].data_address == 0);
  CHECK(code[2].data_address == 0);
}

TEST_CASE("decoding ends at the first byte that is no instruction") {
  CHECK(decode(Machine::kX86_64, {0x90, 0x06, 0x90}, 0).size() == 1);
  CHECK(decode(Machine::kX86_64, {0x48, 0x8d}, 0).empty());
  CHECK(decode(Machine::kX86_64, {}, 0).empty());
  CHECK(decode(Machine::kAarch64, {0x00, 0x05, 0x00}, 0).empty());
}

TEST_CASE("no bytes at all make it fail") {
  // A linear congruential generator: the same bytes in every run.
  uint32_t state = 1;
  Bytes bytes(20000);
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  for (const Machine machine : {Machine::kX86_64, Machine::kI386, Machine::kAarch64}) {
    size_t decoded = 0;
    for (size_t start = 0; start < bytes.size(); start += 40) {
      const auto code = std::span(bytes).subspan(start, 40);
      uint64_t expected = 0x1000;
      for (const Instruction& instruction : disassemble(machine, code, 0x1000, 0x2000)) {
        CHECK(instruction.address == expected);
        CHECK(instruction.size > 0);
        expected += instruction.size;
        ++decoded;
      }
      CHECK(expected <= 0x1000 + code.size());
    }
    CHECK(decoded > 1000);
  }
}

TEST_CASE("libc: the address that most malloc functions load points at itself, as an arena does") {
  const auto image = ElfImage::from_file(MappedFile::open(LIBC_PATH), LIBC_PATH);
  uint64_t got_base = 0;
  for (const char* name : {".got.plt", ".got"}) {
    if (const ElfSection* section = image.section(name); section != nullptr && got_base == 0) {
      got_base = section->address;
    }
  }
  std::map<uint64_t, std::set<std::string>> votes;
  for (const char* name : {"malloc_trim", "malloc_stats", "mallinfo", "mallinfo2", "mallopt",
                           "free", "realloc", "calloc", "malloc"}) {
    const ElfSymbol* symbol = image.find_symbol(name);
    if (symbol == nullptr) continue;
    const auto code = disassemble(image.machine(), image.bytes_at(symbol->value, symbol->size),
                                  symbol->value, got_base);
    REQUIRE(!code.empty());
    CHECK(code.back().address + code.back().size == symbol->value + symbol->size);
    for (const Instruction& instruction : code) {
      const ElfSegment* segment = image.segment_of(instruction.data_address);
      if (instruction.is_address_load && segment != nullptr && (segment->flags & PF_W) != 0) {
        votes[instruction.data_address].insert(name);
      }
    }
  }
  uint64_t winner = 0;
  size_t most = 0;
  for (const auto& [address, names] : votes) {
    if (names.size() <= most) continue;
    winner = address;
    most = names.size();
  }
  CHECK(most >= 5);
  // main_arena.next is initialized to &main_arena: a relocation in it whose addend is its start.
  bool points_at_itself = false;
  for (const ElfRelocation& relocation : image.relocations()) {
    points_at_itself |= relocation.addend == winner && relocation.offset > winner &&
                        relocation.offset - winner < 4096;
  }
  CHECK(points_at_itself);
}
