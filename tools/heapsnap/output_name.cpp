#include "tools/heapsnap/output_name.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"

namespace heapsnap {

namespace {

std::string one_path_component(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; },
      '_');
  // Of a process that calls itself "" or ".name" the file would be hidden.
  if (text.empty()) return "_";
  if (text.starts_with('.')) text.front() = '_';
  return text;
}

}  // namespace

std::string expand_output_name(const std::string& pattern, const Process& process,
                               int64_t taken_at_ns) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    const char letter = i + 1 < pattern.size() ? pattern[++i] : '\0';
    switch (letter) {
      case 'h': name += one_path_component(process.hostname); break;
      case 'p': name += std::to_string(process.pid); break;
      case 'n': name += one_path_component(process.comm); break;
      case 't':
        name += fmt::format("{:%Y%m%dT%H%M%SZ}",
                            fmt::gmtime(static_cast<std::time_t>(taken_at_ns / 1'000'000'000)));
        break;
      case '%': name += '%'; break;
      default:
        throw Error(ErrorKind::kUsage, "output name \"" + pattern + "\"",
                    "after % comes one of h (host), p (PID), n (name), t (time), %");
    }
  }
  return name;
}

}  // namespace heapsnap
