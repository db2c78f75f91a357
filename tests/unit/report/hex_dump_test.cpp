#include "report/hex_dump.h"

#include <doctest/doctest.h>

#include <string_view>
#include <utility>
#include <vector>

using namespace heapsnap;

namespace {

struct Piece {
  uint64_t offset;
  std::string_view text;
};

std::string dumped(uint64_t begin, uint64_t end, const std::vector<Piece>& pieces,
                   size_t width = 80) {
  std::string text;
  Writer out(text);
  HexDump dump(out, begin, end, width);
  for (const Piece& piece : pieces) {
    dump.add(piece.offset, std::as_bytes(std::span(piece.text)));
  }
  dump.finish();
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("lines are those of hexdump -C, in 78 columns") {
  using std::string_view_literals::operator""sv;
  const std::string text = dumped(0, 0x34,
                                  {{0, "config.d\0\x1b\xff\x7f|~\t "sv},
                                   {0x10, std::string_view("aaaaaaaaaaaaaaaaaaaa")},
                                   {0x24, "aaaaaaaaaaaaaaaa"}});
  CHECK(text ==
        "00000000  63 6f 6e 66 69 67 2e 64  00 1b ff 7f 7c 7e 09 20  |config.d....|~. |\n"
        "00000010  61 61 61 61 61 61 61 61  61 61 61 61 61 61 61 61  |aaaaaaaaaaaaaaaa|\n"
        "*\n"
        "00000030  61 61 61 61                                       |aaaa|\n"
        "00000034\n");
  CHECK(text.find('\n') == 78);
}

TEST_CASE("fewer columns have eight bytes a line") {
  CHECK(dumped(0x10, 0x1c, {{0x10, "abcdefghijkl"}}, 77) ==
        "00000010  61 62 63 64 65 66 67 68  |abcdefgh|\n"
        "00000018  69 6a 6b 6c              |ijkl|\n"
        "0000001c\n");
}

TEST_CASE("bytes that are not known are told from those that are") {
  CHECK(dumped(0, 0x58, {{0x2, "abc"}, {0x40, "0123456789abcdef"}}) ==
        "00000000  ?? ?? 61 62 63 ?? ?? ??  ?? ?? ?? ?? ?? ?? ?? ??  |??abc???????????|\n"
        "00000010  not stored: 48 bytes\n"
        "00000040  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n"
        "00000050  ?? ?? ?? ?? ?? ?? ?? ??                           |????????|\n"
        "00000058\n");
  CHECK(dumped(0, 0x20, {}) == "00000000  not stored: 32 bytes\n00000020\n");
  // Beyond the end is nobody's.
  CHECK(dumped(0, 4, {{0, "abcdefgh"}, {0x20, "x"}}) ==
        "00000000  61 62 63 64                                       |abcd|\n00000004\n");
}
