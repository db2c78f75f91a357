// Text that is safe to print on a terminal, and how wide it gets there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heapsnap {

// Whether a reader does not see it, or it moves others: C0, DEL, C1, what changes the direction, or
// vanishes.
bool is_invisible(char32_t character);

// Makes text of a target harmless: control characters (C0, DEL, C1), characters that change the
// direction or vanish, and bytes that are no UTF-8 become "\x1b", "\u202e", "\xff"; a backslash is
// doubled, so that the result is unambiguous.
std::string printable(std::string_view text);

// Columns that text made by printable() takes: wide East Asian characters and emoji two, combining
// marks none.
size_t display_width(std::string_view text);

// Cuts the middle out of printable text that is wider than `width` columns: "/usr/l…/libc.so.6".
std::string clipped(std::string_view text, size_t width);

// Makes a printable name no wider than `width` columns: of what is in the angle brackets of
// templates only with the program's own types (own_types.h), then without all of it, and where
// that is not enough, without its end: "std::map<…, Session>", "std::vector<…>", "handle_req…",
// which is that of the file where there is an offset in it: "handle…+0x8240".
std::string cut_name(std::string_view name, size_t width);

// Breaks at spaces into lines of at most `width` columns, but not between a number and its unit; a
// longer word gets its own line.
std::vector<std::string> wrapped(std::string_view text, size_t width);

// Puts escape sequences around text, or nothing when colour is off.
class Ink {
 public:
  explicit Ink(bool on) : on_(on) {}
  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string dim(std::string_view text) const { return paint("2", text); }
  std::string red(std::string_view text) const { return paint("31", text); }
  std::string yellow(std::string_view text) const { return paint("33", text); }
  std::string green(std::string_view text) const { return paint("32", text); }

 private:
  std::string paint(std::string_view code, std::string_view text) const;
  bool on_;
};

}  // namespace heapsnap
