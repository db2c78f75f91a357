#include "runtime/postgres/postgres_place.h"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace heapsnap {

namespace {

struct PostgresVersion {
  unsigned major = 0;
  std::string text;
};

// What `text` begins with, if that is what version() prints.
std::optional<PostgresVersion> parse_server_version(std::string_view text) {
  constexpr size_t kLongest = 64;
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  text = text.substr(0, end);
  if (text.find(", compiled by ") == std::string_view::npos) return std::nullopt;
  text = text.substr(0, std::min(text.find(' '), kLongest));
  PostgresVersion version;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), version.major);
  if (error != std::errc()) return std::nullopt;
  version.text = text;
  return version;
}

std::optional<PostgresVersion> server_version(const ElfImage& image) {
  constexpr std::string_view kName = "PostgreSQL ";
  constexpr size_t kLongest = 512;
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_W) != 0) continue;
    const auto bytes = image.bytes_at(segment.address, segment.file_size);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (const void* const found =
               ::memmem(text.data(), text.size(), kName.data(), kName.size())) {
      text.remove_prefix(static_cast<size_t>(static_cast<const char*>(found) - text.data()) +
                         kName.size());
      if (auto version = parse_server_version(text.substr(0, kLongest))) return version;
    }
  }
  return std::nullopt;
}

PostgresPlace server_of(const LoadedModules& modules, uint32_t number, const ElfSymbol& symbol) {
  const LoadedModule& module = modules[number];
  PostgresPlace place;
  place.module = module.path();
  place.top = module.bias + symbol.value;
  place.code = modules.segments(number, PF_X, PF_X);
  place.data = modules.segments(number, PF_X, 0);
  const auto version = server_version(module.image());
  if (!version) {
    place.why_not = "what its version() prints is not in its file, so that its version is unknown";
    return place;
  }
  place.version = version->text;
  place.layout = postgres_layout(version->major);
  if (place.layout == nullptr) {
    place.why_not = "heapsnap does not know how PostgreSQL " + std::to_string(version->major) +
                    " lays out its memory contexts";
  }
  return place;
}

}  // namespace

std::vector<PostgresPlace> find_postgres_servers(Target& target, const LoadedModules& modules) {
  std::vector<PostgresPlace> places;
  if (word_size(target.process().machine) != 8) return places;
  for (uint32_t i = 0; i < modules.all().size(); ++i) {
    for (const ElfSymbol& symbol : modules[i].image().dynamic_symbols()) {
      // In libraries that took the parser out of PostgreSQL it is a variable of each thread.
      if (symbol.is_defined && symbol.type == STT_OBJECT && symbol.name == "TopMemoryContext" &&
          symbol.size == sizeof(uint64_t)) {
        places.push_back(server_of(modules, i, symbol));
        break;
      }
    }
  }
  return places;
}

}  // namespace heapsnap
