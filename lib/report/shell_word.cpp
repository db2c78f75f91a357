#include "report/shell_word.h"

#include <algorithm>

#include "report/terminal_text.h"
#include "target/shared_process.h"

namespace heapsnap {

std::string shell_word(std::string_view text, std::string_view stand_in) {
  if (text.empty() || printable(text) != text) return std::string(stand_in);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+,:@%=").find(c) != std::string_view::npos;
  };
  // A leading dash would be an option.
  std::string word = text.front() == '-' ? "./" : "";
  if (std::all_of(text.begin(), text.end(), is_plain)) return word.append(text);
  word.insert(word.begin(), '\'');
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string pid_word(const Process& process) {
  return is_shared(process) ? "PID" : std::to_string(process.pid);
}

}  // namespace heapsnap
