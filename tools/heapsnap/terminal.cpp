#include "tools/heapsnap/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

namespace {

constexpr unsigned kFewestColumns = 60;
constexpr unsigned kMostColumns = 200;  // longer lines are hard to read; --width may ask for more

// A variable of the environment that is a number but 0.
std::optional<unsigned> number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const char* const end = text + std::strlen(text);
  unsigned number = 0;
  const auto [read_to, error] = std::from_chars(text, end, number);
  if (error != std::errc() || read_to != end || number == 0) return std::nullopt;
  return number;
}

}  // namespace

ColorChoice parse_color_choice(const std::string& text) {
  check_choice("--color", text, {"auto", "always", "never"});
  if (text == "always") return ColorChoice::kAlways;
  return text == "never" ? ColorChoice::kNever : ColorChoice::kAuto;
}

bool use_color(ColorChoice choice, int fd) {
  if (choice != ColorChoice::kAuto) return choice == ColorChoice::kAlways;
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal != nullptr && std::string_view(terminal) == "dumb") return false;
  return ::isatty(fd) == 1;
}

unsigned terminal_width(int fd) {
  if (const auto columns = number_in_environment("COLUMNS")) {
    return std::clamp(*columns, kFewestColumns, kMostColumns);
  }
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::clamp<unsigned>(size.ws_col, kFewestColumns, kMostColumns);
}

unsigned terminal_height(int fd) {
  constexpr unsigned kUsualLines = 24;
  if (const auto lines = number_in_environment("LINES")) return *lines;
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return kUsualLines;
  return size.ws_row;
}

unsigned output_width(int fd, uint64_t asked_for) {
  if (asked_for == 0) return terminal_width(fd);
  constexpr uint64_t kMost = 100'000;
  if (asked_for >= kFewestColumns && asked_for <= kMost) return static_cast<unsigned>(asked_for);
  throw Error(ErrorKind::kUsage, "--width " + std::to_string(asked_for),
              "lines are " + std::to_string(kFewestColumns) + " to " + std::to_string(kMost) +
                  " columns wide");
}

}  // namespace heapsnap
