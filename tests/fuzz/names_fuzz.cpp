// Names of functions as symbol tables may have them, a line each: demangled, taken apart and cut to
// some width (the first byte). Nothing grows without measure, and what is cut fits.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "analysis/passed_frames.h"
#include "report/fitted_name.h"
#include "report/terminal_text.h"
#include "tracking/demangle.h"
#include "tracking/function_name.h"
#include "tracking/rust_demangle.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_parts(const std::string& name) {
  const NameParts parts = parts_of_name(name);
  size_t size = parts.type.size() + parts.suffix.size();
  for (const NamePiece& piece : parts.path) {
    require(!piece.text.empty());
    size += piece.text.size();
  }
  require(size <= name.size());
  require(plain_name(name).size() <= name.size());
  is_name_of_start(name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t width = data[0];
  std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::vector<std::string> shown;
  for (size_t begin = 0; begin <= text.size() && shown.size() < 64;) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string mangled = text.substr(begin, end - begin);
    begin = end + 1;
    if (const auto rust = rust_demangled(mangled)) require(rust->size() <= 16 << 10);
    const std::string name = demangled(mangled.c_str());
    require(name.size() <= 16 << 10);
    check_parts(name);
    PassedFrames().role_of(name);
    shown.push_back(printable(name));
    require(display_width(fitted_name(shown.back(), width)) <= width);
  }
  const auto fitted = fitted_names(shown, width);
  require(fitted.size() == shown.size());
  for (size_t i = 0; i < shown.size(); ++i) {
    for (size_t other = 0; other < i; ++other) {
      // A number takes what columns it needs.
      require(width < 16 || (fitted[i] == fitted[other]) == (shown[i] == shown[other]));
    }
  }
  return 0;
}
