#include "tracking/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tracking/rust_demangle.h"

namespace heapsnap {

std::string demangled(const char* name) {
  constexpr size_t kLongest = 4096;
  constexpr size_t kLongestResult = 16 << 10;
  const size_t length = strnlen(name, kLongest + 1);
  if (length > kLongest) return std::string(name, kLongest);
  if (auto rust = rust_demangled({name, length})) return *std::move(rust);
  if (std::strncmp(name, "_Z", 2) != 0) return {name, length};
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(name, nullptr, nullptr, &status));
  if (status != 0 || !text || std::strlen(text.get()) > kLongestResult) return {name, length};
  return text.get();
}

}  // namespace heapsnap
