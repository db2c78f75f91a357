#include "runtime/python/python_place.h"

#include <elf.h>

#include <cstring>
#include <optional>

namespace heapsnap {

namespace {

const ElfSymbol* find_dynamic(const ElfImage& image, std::string_view name) {
  for (const ElfSymbol& symbol : image.dynamic_symbols()) {
    if (symbol.is_defined && symbol.name == name) return &symbol;
  }
  return nullptr;
}

// PY_VERSION_HEX: 0x030b02f0 is 3.11.2.
std::optional<uint32_t> version_of(const ElfImage& image) {
  const ElfSymbol* const symbol = find_dynamic(image, "Py_Version");
  if (symbol == nullptr || symbol->size != sizeof(uint64_t)) return std::nullopt;
  const auto bytes = image.bytes_at(symbol->value, sizeof(uint64_t));
  if (bytes.size() != sizeof(uint64_t)) return std::nullopt;
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  if (value >> 32 != 0) return std::nullopt;
  return static_cast<uint32_t>(value);
}

PythonPlace place_of(const LoadedModules& modules, uint32_t number, const ElfSymbol& symbol) {
  const LoadedModule& module = modules[number];
  PythonPlace place;
  place.module = module.path();
  place.runtime = module.bias + symbol.value;
  place.data = modules.segments(number, PF_R | PF_W, PF_R | PF_W);
  const auto version = version_of(module.image());
  if (!version) {
    place.why_not = "it is older than Python 3.11, or its Py_Version cannot be read";
    return place;
  }
  const unsigned major = *version >> 24;
  const unsigned minor = *version >> 16 & 0xff;
  place.version = std::to_string(major) + "." + std::to_string(minor) + "." +
                  std::to_string(*version >> 8 & 0xff);
  const PythonLayout* const layout = python_layout(major, minor);
  if (module.image().machine() == Machine::kI386) {
    place.why_not = "it is a 32-bit program";
  } else if (layout == nullptr) {
    place.why_not = "heapsnap does not know how Python " + std::to_string(major) + "." +
                    std::to_string(minor) + " lays out its memory";
  } else if (symbol.size != layout->runtime_size) {
    place.why_not = "its _PyRuntime has " + std::to_string(symbol.size) + " bytes, not " +
                    std::to_string(layout->runtime_size) + " as that of other builds";
  } else {
    place.layout = layout;
  }
  return place;
}

}  // namespace

std::vector<PythonPlace> find_pythons(Target& target, const LoadedModules& modules) {
  std::vector<PythonPlace> places;
  if (word_size(target.process().machine) != 8) return places;
  for (uint32_t i = 0; i < modules.all().size(); ++i) {
    const ElfSymbol* const symbol = find_dynamic(modules[i].image(), "_PyRuntime");
    if (symbol != nullptr) places.push_back(place_of(modules, i, *symbol));
  }
  return places;
}

std::string check_python(Target& target, const PythonPlace& place, uint64_t* interpreters) {
  constexpr uint64_t kMost = 100'000;
  *interpreters = 0;
  if (place.layout == nullptr) return place.why_not;
  const PythonLayout& layout = *place.layout;
  MemoryReader& memory = target.memory();
  auto next = memory.read_value<uint64_t>(place.runtime + layout.runtime_first_interpreter);
  if (!next) return "its _PyRuntime cannot be read";
  if (*next == 0) return "it has no interpreter: it was not started yet, or has ended";
  while (*next != 0) {
    const Address at(*next);
    const auto runtime = memory.read_value<uint64_t>(at + layout.interpreter_runtime);
    if (!runtime || *runtime != place.runtime.value()) {
      return "its list of interpreters leads to something else";
    }
    if (++*interpreters > kMost) return "its list of interpreters does not end";
    next = memory.read_value<uint64_t>(at + layout.interpreter_next);
    if (!next) return "an interpreter's state cannot be read";
  }
  return {};
}

}  // namespace heapsnap
