#include "tools/heapsnap/error_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "report/terminal_text.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

void print_error(const Error& error) {
  const bool color = use_color(ColorChoice::kAuto, STDERR_FILENO);
  // Names that come from a target must not reach the terminal as they are.
  const std::string remark = error.remark().empty() ? "" : "; " + error.remark();
  std::string text = fmt::format("{}heapsnap: {}{}\n  why: {}\n", color ? "\033[1;31m" : "",
                                 printable(error.subject()), color ? "\033[0m" : "",
                                 printable(error.why() + remark));
  if (!error.remedy().empty()) text += fmt::format("  do:  {}\n", printable(error.remedy()));
  print_notice(text);
}

void print_notice(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace heapsnap
