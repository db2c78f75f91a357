#include "tracking/demangle.h"

#define HAVE_DECL_BASENAME 1  // libiberty.h declares another one otherwise
#include <libiberty/demangle.h>

#include <csetjmp>
#include <cstring>
#include <string_view>
#include <utility>

#include "tracking/rust_demangle.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestMangled = 4096;
constexpr size_t kLongestDemangled = 16 << 10;

struct BoundedText {
  std::string text{};
  std::jmp_buf too_long{};
};

// The frames between here and print_name() are those of a C library that keeps nothing on the heap.
extern "C" void append_to_name(const char* part, size_t size, void* name) {
  BoundedText& out = *static_cast<BoundedText*>(name);
  if (size > kLongestDemangled - out.text.size()) {
    std::longjmp(out.too_long, 1);  // NOLINT(cert-err52-cpp): it has no other way out
  }
  out.text.append(part, size);
}

// By the callback, since substitutions may double a name with each few letters: one of 332 letters
// has gigabytes (abi::__cxa_demangle() would return them). False when it has no such name.
bool print_name(const char* mangled, BoundedText& out) {
  if (setjmp(out.too_long) != 0) return false;  // NOLINT(cert-err52-cpp)
  return cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_TYPES, append_to_name, &out) != 0;
}

}  // namespace

std::string demangled(const char* name) {
  const size_t length = strnlen(name, kLongestMangled + 1);
  if (length > kLongestMangled) return std::string(name, kLongestMangled);
  if (auto rust = rust_demangled({name, length})) return *std::move(rust);
  if (std::strncmp(name, "_Z", 2) != 0) return {name, length};
  BoundedText out;
  if (!print_name(name, out)) return {name, length};
  return std::move(out.text);
}

std::string demangled_variable(const char* name) {
  constexpr std::string_view kTag = "[abi:";
  std::string text = demangled(name);
  for (size_t begin = 0; (begin = text.find(kTag, begin)) != std::string::npos;) {
    const size_t end = text.find(']', begin);
    if (end == std::string::npos) break;
    text.erase(begin, end + 1 - begin);
  }
  return text;
}

}  // namespace heapsnap
