#include "analysis/language_runtime.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/file_name.h"
#include "runtime/python/python_layout.h"
#include "runtime/ruby/ruby_layout.h"

namespace heapsnap {

namespace {

constexpr uint64_t kRubyPage = 64 << 10;  // since 3.2
constexpr uint64_t kOldRubyPage = 16 << 10;
constexpr uint64_t kV8Page = 256 << 10;
constexpr uint64_t kJavaUnit = 64 << 10;

using Version = std::pair<unsigned, unsigned>;

// The first one that the name of a file has: 3.1 in "libruby-3.1.so.3.1.7".
std::optional<Version> version_in(std::string_view name) {
  const size_t digit = name.find_first_of("0123456789");
  if (digit == std::string_view::npos) return std::nullopt;
  Version version;
  const char* const end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(name.data() + digit, end, version.first);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, version.second).ec != std::errc()) return std::nullopt;
  return version;
}

// "11" of "python3.11"; nothing where the name does not go on like that behind `prefix`.
std::optional<unsigned> python3_minor(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::optional<Version> version = version_in(name);
  if (!version || version->second > 999) return std::nullopt;
  return version->second;
}

// Pages of the heap of the Ruby whose program or library that is: "ruby3.1", "libruby.so.3.1.7",
// "libruby-2.7.so". Without a version, the smaller ones: the larger ones are at multiples of them,
// too.
uint64_t ruby_page(std::string_view name) {
  const std::optional<Version> version = version_in(name);
  return version && *version >= Version{3, 2} ? kRubyPage : kOldRubyPage;
}

std::optional<LanguageRuntime> runtime_of(std::string_view name) {
  const auto made = [name](Language language, uint64_t unit) {
    return LanguageRuntime{language, std::string(name), unit};
  };
  auto python = python3_minor(name, "libpython3.");
  if (!python) python = python3_minor(name, "python3.");
  if (python) return made(Language::kPython, *python < 10 ? 256 << 10 : 1 << 20);
  // An executable has its version behind its name, a library's data has ".so".
  const bool is_ruby_program =
      name == "ruby" || (name.starts_with("ruby") &&
                         name.find_first_not_of("0123456789.", 4) == std::string_view::npos);
  if (is_ruby_program || name.starts_with("libruby")) {
    return made(Language::kRuby, ruby_page(name));
  }
  if (name == "node" || name == "nodejs" || name.starts_with("libnode.so")) {
    return made(Language::kV8, kV8Page);
  }
  if (name == "libjvm.so") return made(Language::kJava, kJavaUnit);
  return std::nullopt;
}

}  // namespace

std::vector<LanguageRuntime> mapped_runtimes(const std::vector<Mapping>& mappings) {
  std::vector<LanguageRuntime> found;
  for (const Mapping& mapping : mappings) {
    if (mapping.is_anonymous()) continue;
    auto runtime = runtime_of(file_name_of(mapping.path));
    if (!runtime) continue;
    const bool is_known = std::any_of(found.begin(), found.end(), [&](const LanguageRuntime& one) {
      return one.language == runtime->language;
    });
    if (!is_known) found.push_back(std::move(*runtime));
  }
  return found;
}

bool can_record_functions(const LanguageRuntime& runtime) {
  const std::optional<Version> version = version_in(runtime.module);
  if (!version) return false;
  const auto [major, minor] = *version;
  if (runtime.language == Language::kPython) {
    const PythonLayout* const layout = python_layout(major, minor);
    return layout != nullptr && layout->has_calls();
  }
  return runtime.language == Language::kRuby &&
         std::ranges::any_of(ruby_layouts(major, minor),
                             [](const RubyLayout* layout) { return layout->has_calls(); });
}

std::optional<Language> recordable_language(const std::vector<Mapping>& mappings) {
  for (const LanguageRuntime& runtime : mapped_runtimes(mappings)) {
    if (can_record_functions(runtime)) return runtime.language;
  }
  return std::nullopt;
}

bool looks_managed_by(const LanguageRuntime& runtime, const Mapping& mapping, uint64_t own_size) {
  if (!mapping.path.empty() || !mapping.is_anonymous() || !mapping.is_private_writable() ||
      mapping.executable || own_size < runtime.unit) {
    return false;
  }
  const bool begins_at_unit = mapping.range.begin.value() % runtime.unit == 0;
  switch (runtime.language) {
    // Mapped wherever the kernel had room.
    case Language::kPython: return own_size % runtime.unit == 0;
    case Language::kRuby: {
      const bool ends_at_unit = mapping.range.end.value() % runtime.unit == 0;
      const bool is_merged = own_size != mapping.range.size();
      return is_merged ? begins_at_unit || ends_at_unit : begins_at_unit && ends_at_unit;
    }
    case Language::kV8:
    case Language::kJava: return begins_at_unit;
  }
  return false;
}

}  // namespace heapsnap
