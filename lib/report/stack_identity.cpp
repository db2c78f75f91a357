#include "report/stack_identity.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <string_view>

#include "base/file_name.h"
#include "report/stack_labels.h"

namespace heapsnap {

namespace {
constexpr std::string_view kNoFile = "code of no file";  // its address says nothing on other hosts
}  // namespace

std::string portable_label(const NamedFrame& frame) {
  if (frame.function.empty() && !frame.has_module) return std::string(kNoFile);
  return function_label(frame);
}

uint64_t stack_identity(const std::vector<NamedFrame>& frames) {
  std::string text;
  for (const NamedFrame& frame : frames) {
    text += portable_label(frame);
    text += '\0';
    text += file_name_of(frame.module);
    text += '\0';
  }
  return XXH64(text.data(), text.size(), 0);
}

std::string identity_text(uint64_t identity) {
  return fmt::format("{:016x}", identity);
}

}  // namespace heapsnap
