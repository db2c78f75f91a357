#include "analysis/language_runtime.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace heapsnap {

namespace {

constexpr uint64_t kRubyPage = 64 << 10;
constexpr uint64_t kV8Page = 256 << 10;
constexpr uint64_t kJavaUnit = 64 << 10;

// "11" of "3.11" behind `prefix`; nothing where the name does not go on like that.
std::optional<unsigned> python3_minor(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  unsigned minor = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), minor);
  if (error != std::errc() || minor > 999) return std::nullopt;
  return minor;
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
  if (is_ruby_program || name.starts_with("libruby")) return made(Language::kRuby, kRubyPage);
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
    const std::string_view path = mapping.path;
    auto runtime = runtime_of(path.substr(path.rfind('/') + 1));
    if (!runtime) continue;
    const bool is_known = std::any_of(found.begin(), found.end(), [&](const LanguageRuntime& one) {
      return one.language == runtime->language;
    });
    if (!is_known) found.push_back(std::move(*runtime));
  }
  return found;
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
    // Where something else was merged with them, an end or the size still tells.
    case Language::kRuby:
      return begins_at_unit || mapping.range.end.value() % runtime.unit == 0 ||
             own_size % runtime.unit == 0;
    case Language::kV8:
    case Language::kJava: return begins_at_unit;
  }
  return false;
}

}  // namespace heapsnap
