#include "elf/displaced_code.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <initializer_list>

namespace heapsnap {

namespace {

std::vector<std::byte> code_of(std::initializer_list<int> bytes) {
  std::vector<std::byte> code;
  for (const int byte : bytes) code.push_back(static_cast<std::byte>(byte));
  code.resize(64, std::byte{0x90});
  return code;
}

int32_t distance_at(const std::vector<std::byte>& copy, size_t at) {
  int32_t distance = 0;
  REQUIRE(at + sizeof distance <= copy.size());
  std::memcpy(&distance, copy.data() + at, sizeof distance);
  return distance;
}

constexpr uint64_t kEntry = 0x10000;
constexpr uint64_t kCopy = 0x30000;

}  // namespace

TEST_CASE("whole instructions are displaced, and the copy goes on behind them") {
  // push %r12; push %rbp; push %rbx; mov %rdi,%rbx
  const auto code = code_of({0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb});
  const auto displaced = displace_code(code, kEntry, kCopy);
  REQUIRE(displaced);
  CHECK(displaced->displaced == AddressRange{Address(kEntry + 2), Address(kEntry + 7)});
  REQUIRE(displaced->copy.size() == 12);
  CHECK(std::equal(code.begin(), code.begin() + 7, displaced->copy.begin()));
  CHECK(displaced->copy[7] == std::byte{0xe9});
  CHECK(kCopy + 12 + static_cast<uint64_t>(distance_at(displaced->copy, 8)) == kEntry + 7);
}

TEST_CASE("a first instruction is kept if what it does can be undone") {
  struct Case {
    const char* what;
    std::vector<std::byte> code;
    uint64_t kept;
    size_t undo;
  };
  const Case cases[] = {
      {"push %rbp", code_of({0x55, 0x53, 0x48, 0x89, 0xfb}), 1, 5},
      {"push %r15", code_of({0x41, 0x57, 0x41, 0x56, 0x41, 0x55}), 2, 5},
      {"test %rdi,%rdi", code_of({0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0}), 3, 0},
      {"cmpb $0,0x140e71(%rip)", code_of({0x80, 0x3d, 0x71, 0x0e, 0x14, 0, 0}), 7, 0},
      {"mov %rsi,%rax", code_of({0x48, 0x89, 0xf0, 0x48, 0xf7, 0xe2}), 3, 0},
      {"mov %rdi,%rbx", code_of({0x48, 0x89, 0xfb}), 0, 0},
      {"mov %rax,8(%rdi)", code_of({0x48, 0x89, 0x47, 0x08}), 0, 0},
      {"sub $0x18,%rsp", code_of({0x48, 0x83, 0xec, 0x18}), 0, 0},
      {"xor %eax,%eax; jmp: no room behind it", code_of({0x31, 0xc0, 0xe9, 0, 1, 0, 0}), 0, 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    const auto displaced = displace_code(one.code, kEntry, kCopy);
    REQUIRE(displaced);
    CHECK(displaced->displaced.begin == Address(kEntry + one.kept));
    CHECK(displaced->displaced.size() >= kJumpSize);
    CHECK(displaced->undo.size() == one.undo);
    CHECK(displaced->guarded.begin == Address(kEntry));
    // The copy begins with what is kept.
    CHECK(displaced->copy[0] == one.code[0]);
  }
  // push %rbp; push %rbx; mov %rdi,%rbx; mov %rsi,%rdi; jmp to the second instruction: there
  // nothing is to be undone, so the first one is not kept, and the second cannot be displaced.
  CHECK(!displace_code(code_of({0x55, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf7, 0xeb, 0xf7}),
                       kEntry, kCopy));
}

TEST_CASE("an endbr64 stays, and the copy has one of its own") {
  // endbr64; sub $0x18,%rsp; xor %eax,%eax
  const auto code = code_of({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x18, 0x31, 0xc0});
  const auto displaced = displace_code(code, kEntry, kCopy);
  REQUIRE(displaced);
  CHECK(displaced->displaced == AddressRange{Address(kEntry + 4), Address(kEntry + 10)});
  CHECK(std::equal(code.begin(), code.begin() + 10, displaced->copy.begin()));
}

TEST_CASE("operands relative to the instruction pointer name the same address") {
  // cmpb $0,0x140e71(%rip)
  const auto code = code_of({0x80, 0x3d, 0x71, 0x0e, 0x14, 0x00, 0x00});
  const auto displaced = displace_code(code, kEntry, kCopy);
  REQUIRE(displaced);
  const uint64_t target = kEntry + 7 + 0x140e71;
  CHECK(kCopy + 7 + static_cast<uint64_t>(distance_at(displaced->copy, 2)) == target);
}

TEST_CASE("jumps lead to where they led") {
  // test %rdi,%rdi; je +0xbf (near)
  const auto far_jump = code_of({0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0});
  const auto displaced = displace_code(far_jump, kEntry, kCopy);
  REQUIRE(displaced);
  CHECK(kCopy + 9 + static_cast<uint64_t>(distance_at(displaced->copy, 5)) == kEntry + 9 + 0xbf);
  // test %rdi,%rdi; je +0x20 (short): becomes a near one
  const auto short_jump = code_of({0x48, 0x85, 0xff, 0x74, 0x20});
  const auto widened = displace_code(short_jump, kEntry, kCopy);
  REQUIRE(widened);
  CHECK(widened->copy[3] == std::byte{0x0f});
  CHECK(widened->copy[4] == std::byte{0x84});
  CHECK(kCopy + 9 + static_cast<uint64_t>(distance_at(widened->copy, 5)) == kEntry + 5 + 0x20);
}

TEST_CASE("what cannot be moved is refused") {
  CHECK(!displace_code(code_of({0xe8, 0, 1, 0, 0}), kEntry, kCopy));        // call
  CHECK(!displace_code(code_of({0x31, 0xc0, 0xc3}), kEntry, kCopy));        // xor; ret
  CHECK(!displace_code(code_of({0xe3, 0x10, 0x90, 0x90}), kEntry, kCopy));  // jrcxz
  CHECK(!displace_code(code_of({0xeb, 0x10, 0x90, 0x90}), kEntry, kCopy));  // ends before 5 bytes
  CHECK(!displace_code(code_of({0x06, 0x06}), kEntry, kCopy));              // no instruction
  CHECK(!displace_code(std::vector<std::byte>(3, std::byte{0x90}), kEntry, kCopy));
  // push %rbp; push %rbx; mov %rdi,%rbx; ...; jmp back to the second instruction
  CHECK(!displace_code(code_of({0x55, 0x53, 0x48, 0x89, 0xfb, 0xeb, 0xfa}), kEntry, kCopy));
  // Back to the first one it may jump: that is where the jump to the hook is.
  CHECK(displace_code(code_of({0x55, 0x53, 0x48, 0x89, 0xfb, 0xeb, 0xf9}), kEntry, kCopy));
  // A copy that is too far away from what it refers to.
  CHECK(!displace_code(code_of({0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb}), kEntry,
                       kEntry + (uint64_t{1} << 33)));
  CHECK(!encode_jump(0, uint64_t{1} << 32));
}

TEST_CASE("the copy of a function does what the function does") {
  // int f(int x) { return x == 0 ? 7 : x + *(int*)(f + 0x100); }
  //   test %edi,%edi; je +9; mov %edi,%eax; add 0xf6(%rip),%eax; ret; mov $7,%eax; ret
  auto code = code_of({0x85, 0xff, 0x74, 0x09, 0x89, 0xf8, 0x03, 0x05, 0xf4, 0x00, 0x00, 0x00, 0xc3,
                       0xb8, 0x07, 0x00, 0x00, 0x00, 0xc3});
  auto* const page = static_cast<std::byte*>(::mmap(
      nullptr, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(page != MAP_FAILED);
  std::copy(code.begin(), code.end(), page);
  const int added = 35;
  std::memcpy(page + 0x100, &added, sizeof added);
  const auto entry = reinterpret_cast<uint64_t>(page);
  const auto displaced = displace_code(code, entry, entry + 4096);
  REQUIRE(displaced);
  std::copy(displaced->copy.begin(), displaced->copy.end(), page + 4096);
  int (*original)(int) = nullptr;
  int (*copy)(int) = nullptr;
  const std::byte* const copy_at = page + 4096;
  std::memcpy(&original, &page, sizeof original);
  std::memcpy(&copy, &copy_at, sizeof copy);
  CHECK(original(0) == 7);
  CHECK(copy(0) == 7);
  CHECK(original(7) == 42);
  CHECK(copy(7) == 42);
  ::munmap(page, 8192);
}

}  // namespace heapsnap
