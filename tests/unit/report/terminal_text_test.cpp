#include "report/terminal_text.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "report/text_table.h"
#include "tests/unit/limited_child.h"

using namespace heapsnap;

TEST_CASE("nothing that a target names can drive the terminal") {
  CHECK(printable("plain näme") == "plain näme");
  CHECK(printable("\x1b[2J\r\n\t") == "\\x1b[2J\\x0d\\x0a\\x09");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") ==
        "\\xc2\\x9b"
        "31m");  // C1 CSI
  CHECK(printable("\xe2\x80\xae"
                  "gpj.exe") == "\\u202egpj.exe");
  CHECK(printable("zero\xe2\x80\x8bwidth") == "zero\\u200bwidth");
  CHECK(printable("half\xef\xbe\xa0width") == "half\\uffa0width");
  CHECK(printable("braille\xe2\xa0\x80"
                  "blank") == "braille\\u2800blank");
  CHECK(printable("\xf0\x9d\x85\xb3") == "\\u1d173");
  CHECK(printable("back\\slash") == "back\\\\slash");
}

TEST_CASE("bytes that are no UTF-8 are shown as they are") {
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("\xc3") == "\\xc3");
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");                    // over-long '/'
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  CHECK(printable("\xe2\x82z") == "\\xe2\\x82z");
  CHECK(printable("\xe2\x82\xac") == "€");
  CHECK(printable("\xf0\x9f\x98\x80") == "😀");
}

TEST_CASE("width counts columns, not bytes") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("äöü") == 3);
  CHECK(display_width("漢字") == 4);
  CHECK(display_width("e\xcc\x81") == 1);
  CHECK(display_width("😀") == 2);
}

TEST_CASE("clipping keeps both ends and the width") {
  CHECK(clipped("short", 10) == "short");
  CHECK(clipped("/usr/lib/x86_64-linux-gnu/libc.so.6", 16) == "/usr/…/libc.so.6");
  for (size_t width = 0; width < 12; ++width) {
    CAPTURE(width);
    CHECK(display_width(clipped("漢字漢字漢字漢字", width)) <= width);
    CHECK(display_width(clipped("abcdefghijklmn", width)) == width);
  }
}

TEST_CASE("of a name the arguments of templates go first, then its end") {
  CHECK(cut_name("std::vector<int>", 16) == "std::vector<int>");
  CHECK(cut_name("std::map<int, std::string>::node", 20) == "std::map<…>::node");
  CHECK(cut_name("std::map<int, std::string>::node", 12) == "std::map<…>…");
  // What is there is told from what is next to it.
  CHECK(cut_name("sessiond_stripped+0xa2b0 to +0xa2c8", 20) == "sessiond_str…+0xa2b0");
  const std::string_view of_threads =
      "server+0xa2b0 to +0xa2c8, thread-local of 4 threads (pool-*)";
  CHECK(cut_name(of_threads, 44) == "server…+0xa2b0, thread-local");
  CHECK(cut_name(of_threads, 20) == "server…+0xa2b0");
  CHECK(cut_name("list node, held at +0x48", 20) == "list node, held at …");
  CHECK(cut_name("libpool.so+0xa2b0", 10) == "libpool.s…");
  CHECK(cut_name("operator<(Key const&, Key const&)", 12) == "operator<(K…");
  CHECK(cut_name("a->b, a name", 6) == "a->b,…");
  CHECK(cut_name("name", 0).empty());
  for (size_t width = 0; width < 12; ++width) {
    CHECK(display_width(cut_name("漢字漢字漢字漢字", width)) <= width);
  }
}

TEST_CASE("lines break at spaces") {
  CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("a  b", 10) == std::vector<std::string>{"a b"});
  CHECK(wrapped("", 10) == std::vector<std::string>{""});
  CHECK(wrapped("unbreakable word", 4) == std::vector<std::string>{"unbreakable", "word"});
}

TEST_CASE("a number and its unit stay on one line") {
  CHECK(wrapped("of 182.8 MiB, all", 8) == std::vector<std::string>{"of", "182.8 MiB,", "all"});
  CHECK(wrapped("held 5 ms", 6) == std::vector<std::string>{"held", "5 ms"});
  CHECK(wrapped("of 2 servers", 4) == std::vector<std::string>{"of 2", "servers"});
  CHECK(wrapped("a B c", 1) == std::vector<std::string>{"a", "B", "c"});
}

TEST_CASE("columns line up by what is seen") {
  std::string text;
  Writer out(text);
  TextTable table;
  table.add_column("name", TextTable::Align::kLeft);
  table.add_column("bytes", TextTable::Align::kRight);
  table.add_row({"ä", "1"});
  table.add_row({"漢字漢", "12345678"});
  table.add_row({"all"});
  table.set_sum();
  table.print(out, Ink(false), 80);
  out.flush();
  CHECK(text ==
        "  name       bytes\n"
        "  ä              1\n"
        "  漢字漢  12345678\n"
        "  all\n");
}

TEST_CASE("a table fits into its width") {
  TextTable table;
  table.add_column("row", TextTable::Align::kLeft);
  table.add_column("bytes", TextTable::Align::kRight);
  table.add_column("blocks", TextTable::Align::kRight);
  table.add_column("function", 8, [](const std::vector<std::string>& cells, size_t width) {
    std::vector<std::string> cut;
    for (const std::string& cell : cells) cut.push_back(clipped(cell, width));
    return cut;
  });
  table.add_row({"of many words", "1000.0 MiB", "1,000,000", "a_function_with_a_long_name"});
  const auto text_in = [&](size_t width) {
    std::string text;
    Writer out(text);
    table.print(out, Ink(false), width);
    out.flush();
    return text;
  };
  CHECK(text_in(80) ==
        "  row                 bytes     blocks  function\n"
        "  of many words  1000.0 MiB  1,000,000  a_function_with_a_long_name\n");
  // Words are broken, the last column is cut.
  CHECK(text_in(45) ==
        "  row              bytes     blocks  function\n"
        "  of many     1000.0 MiB  1,000,000  a_…_name\n"
        "  words\n");
  CHECK(text_in(39) ==
        "  row          bytes    blocks function\n"
        "  of many 1000.0 MiB 1,000,000 a_…_name\n"
        "  words\n");
  // The last column has lines of its own.
  CHECK(text_in(34) ==
        "  row             bytes     blocks\n"
        "      function\n"
        "  of many    1000.0 MiB  1,000,000\n"
        "  words\n"
        "      a_function_with_a_long_name\n");
  // Numbers stay whole: the first column is said again.
  CHECK(text_in(24) ==
        "  row              bytes\n"
        "  of many     1000.0 MiB\n"
        "  words\n"
        "\n"
        "  row             blocks\n"
        "      function\n"
        "  of many      1,000,000\n"
        "  words\n"
        "      a_fun…_a_long_name\n");
}

TEST_CASE("colour is asked for") {
  CHECK(Ink(false).bold("x") == "x");
  CHECK(Ink(true).bold("x") == "\x1b[1mx\x1b[0m");
}

TEST_CASE("long names take time in proportion to their length") {
  const std::string name(8U << 20, 'n');
  std::string sentence;
  while (sentence.size() < name.size()) sentence += "a word ";
  CHECK(test::end_within({.cpu_seconds = 20}, [&] {
          if (clipped(name, 80).size() != 82) throw std::runtime_error("clipped");
          if (display_width(wrapped(sentence, name.size() * 2).front()) == 0) {
            throw std::runtime_error("wrapped");
          }
          if (wrapped(sentence, 80).size() < 1000) throw std::runtime_error("wrapped");
          if (printable(name) != name) throw std::runtime_error("printable");
        }) == "");
}
