#include "runtime/python/python_place.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/file_name.h"

namespace heapsnap {

namespace {

constexpr std::string_view kState = "_PyRuntime";       // since 3.7
constexpr std::string_view kStart = "Py_InitializeEx";  // of all
constexpr uint64_t kMostRuntimeBytes = 64 << 20;        // of _PyRuntime, which is read as a whole

// PY_VERSION_HEX: 0x030b02f0 is 3.11.2.
std::optional<uint32_t> version_of(const ElfImage& image) {
  const ElfSymbol* const symbol = image.find_dynamic_symbol("Py_Version");
  if (symbol == nullptr || symbol->size != sizeof(uint64_t)) return std::nullopt;
  const auto bytes = image.bytes_at(symbol->value, sizeof(uint64_t));
  if (bytes.size() != sizeof(uint64_t)) return std::nullopt;
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  if (value >> 32 != 0) return std::nullopt;
  return static_cast<uint32_t>(value);
}

// "3.9" of a file named python3.9 or libpython3.9.so.1.0.
std::optional<std::pair<unsigned, unsigned>> version_in(std::string_view path) {
  constexpr std::string_view kName = "python";
  std::string_view name = file_name_of(path);
  const size_t at = name.rfind(kName);
  if (at == std::string_view::npos) return std::nullopt;
  name.remove_prefix(at + kName.size());
  unsigned major = 0;
  unsigned minor = 0;
  const char* const end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(name.data(), end, major);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return std::nullopt;
  return std::pair(major, minor);
}

// The state of an interpreter, or, if it is too old to have one, what starts it.
const ElfSymbol* find_interpreter(const ElfImage& image) {
  const ElfSymbol* start = nullptr;
  for (const ElfSymbol& symbol : image.dynamic_symbols()) {
    if (!symbol.is_defined) continue;
    if (symbol.name == kState) return &symbol;
    if (symbol.name == kStart) start = &symbol;
  }
  return start;
}

PythonPlace place_of(const LoadedModules& modules, uint32_t number, const ElfSymbol& symbol) {
  const LoadedModule& module = modules[number];
  PythonPlace place;
  place.module = module.path();
  place.runtime = module.bias + symbol.value;
  place.runtime_size = symbol.size;
  place.data = modules.segments(number, PF_R | PF_W, PF_R | PF_W);
  unsigned major = 0;
  unsigned minor = 0;
  if (const auto version = version_of(module.image())) {
    major = *version >> 24;
    minor = *version >> 16 & 0xff;
    place.version = std::to_string(major) + "." + std::to_string(minor) + "." +
                    std::to_string(*version >> 8 & 0xff);
  } else if (const auto named = version_in(place.module)) {
    std::tie(major, minor) = *named;
    place.version = std::to_string(major) + "." + std::to_string(minor);
  } else {
    place.why_not = "neither Py_Version nor its file's name says which version it is";
    return place;
  }
  const PythonLayout* const layout = symbol.name == kState ? python_layout(major, minor) : nullptr;
  if (module.image().machine() == Machine::kI386) {
    place.why_not = "it is a 32-bit program";
  } else if (layout == nullptr) {
    place.why_not = "heapsnap does not know how Python " + std::to_string(major) + "." +
                    std::to_string(minor) + " lays out its memory";
  } else if ((symbol.size != layout->runtime_size && layout->debug_version == 0) ||
             symbol.size > kMostRuntimeBytes) {
    place.why_not = "its _PyRuntime has " + std::to_string(symbol.size) + " bytes, not " +
                    std::to_string(layout->runtime_size) + " as that of other builds";
  } else {
    place.layout = layout;
  }
  return place;
}

// How its list of interpreters is linked.
struct InterpreterList {
  uint64_t first = 0;
  uint64_t next = 0;
  uint64_t runtime = 0;  // 0: not known where an interpreter says whose it is
  std::string why_not;
};

// Of a build that differs from the layout's. Since 3.13, _PyRuntime says itself where what is; that
// has to be what the layout says of the objects.
InterpreterList read_debug_offsets(MemoryReader& memory, const PythonPlace& place) {
  constexpr std::string_view kCookie = "xdebugpy";
  constexpr uint64_t kMostOffset = 1 << 24;
  const PythonLayout& layout = *place.layout;
  const auto word_at = [&](uint32_t offset) {
    return memory.read_value<uint64_t>(place.runtime + offset).value_or(UINT64_MAX);
  };
  std::array<char, kCookie.size()> cookie{};
  if (!memory.read_exact(place.runtime, std::as_writable_bytes(std::span(cookie))) ||
      std::string_view(cookie.data(), cookie.size()) != kCookie) {
    return {0, 0, 0, "its _PyRuntime does not say where what is (_Py_DebugOffsets)"};
  }
  if (word_at(layout.debug_free_threaded) != 0) {
    return {0, 0, 0, "it is built without a global lock, and has other objects"};
  }
  const bool is_alike = word_at(layout.debug_version) >> 16 == (layout.major << 8 | layout.minor) &&
                        word_at(layout.debug_runtime_size) == place.runtime_size &&
                        word_at(layout.debug_type_name) == layout.type_name &&
                        word_at(layout.debug_type_flags) == layout.type_flags &&
                        word_at(layout.debug_dict_keys) == layout.dict_keys &&
                        word_at(layout.debug_dict_values) == layout.dict_values &&
                        word_at(layout.debug_text_length) == layout.text_length &&
                        word_at(layout.debug_text_state) == layout.text_state &&
                        word_at(layout.debug_text_ascii_size) == layout.text_ascii_size;
  if (!is_alike)
    return {0, 0, 0, "its objects are laid out otherwise than in other builds of " + place.version};
  InterpreterList list{
      word_at(layout.debug_first_interpreter), word_at(layout.debug_interpreter_next), 0, {}};
  if (list.first > place.runtime_size - 8 || list.next > kMostOffset) {
    return {0, 0, 0, "its _PyRuntime says of no place where its interpreters are"};
  }
  return list;
}

InterpreterList interpreter_list(MemoryReader& memory, const PythonPlace& place) {
  const PythonLayout& layout = *place.layout;
  if (place.runtime_size != layout.runtime_size) return read_debug_offsets(memory, place);
  return {
      layout.runtime_first_interpreter, layout.interpreter_next, layout.interpreter_runtime, {}};
}

}  // namespace

std::vector<PythonPlace> find_pythons(const LoadedModules& modules) {
  std::vector<PythonPlace> places;
  for (uint32_t i = 0; i < modules.all().size(); ++i) {
    const ElfSymbol* const symbol = find_interpreter(modules[i].image());
    if (symbol != nullptr) places.push_back(place_of(modules, i, *symbol));
  }
  return places;
}

bool has_known_interpreters(Target& target, const PythonPlace& place) {
  const PythonLayout& layout = *place.layout;
  if (place.runtime_size == layout.runtime_size) return true;
  const auto says = [&](uint32_t offset, uint64_t expected) {
    return target.memory().read_value<uint64_t>(place.runtime + offset) == expected;
  };
  const std::pair<uint32_t, uint32_t> members[] = {
      {layout.debug_interpreter_threads, layout.interpreter_threads},
      {layout.debug_thread_stack_chunk, layout.thread_stack_chunk},
      {layout.debug_thread_id, layout.thread_id},
      {layout.debug_thread_frame, layout.thread_frame},
      {layout.debug_frame_previous, layout.frame_previous},
      {layout.debug_frame_code, layout.frame_code},
      {layout.debug_frame_instruction, layout.frame_instruction},
      {layout.debug_frame_owner, layout.frame_owner},
      {layout.debug_frame_locals, layout.frame_locals},
      {layout.debug_code_variables, layout.code_variables},
      {layout.debug_code_name, layout.code_name},
      {layout.debug_code_file, layout.code_file},
      {layout.debug_code_first_line, layout.code_first_line},
      {layout.debug_code_lines, layout.code_lines},
      {layout.debug_code_instructions, layout.code_instructions}};
  return layout.debug_version != 0 &&
         std::all_of(std::begin(members), std::end(members),
                     [&](const auto& member) { return says(member.first, member.second); });
}

std::string check_python(Target& target, const PythonPlace& place,
                         std::vector<Address>* interpreters) {
  constexpr size_t kMost = 4096;  // each of them takes megabytes
  interpreters->clear();
  if (place.layout == nullptr) return place.why_not;
  MemoryReader& memory = target.memory();
  const InterpreterList list = interpreter_list(memory, place);
  if (!list.why_not.empty()) return list.why_not;
  auto next = memory.read_value<uint64_t>(place.runtime + list.first);
  if (!next) return "its _PyRuntime cannot be read";
  if (*next == 0) return "it has no interpreter: it was not started yet, or has ended";
  while (*next != 0) {
    const Address at(*next);
    if (list.runtime != 0) {
      const auto runtime = memory.read_value<uint64_t>(at + list.runtime);
      if (!runtime || *runtime != place.runtime.value()) {
        return "its list of interpreters leads to something else";
      }
    }
    if (interpreters->size() == kMost) return "its list of interpreters does not end";
    interpreters->push_back(at);
    next = memory.read_value<uint64_t>(at + list.next);
    if (!next) return "an interpreter's state cannot be read";
  }
  return {};
}

}  // namespace heapsnap
