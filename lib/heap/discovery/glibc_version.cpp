#include "heap/discovery/glibc_version.h"

#include <algorithm>
#include <charconv>

#include "base/file_name.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

constexpr int kLastMinor = 200;  // more than this is not a version of glibc

// "2.36..." -> 2.36; 0.0 when `text` does not begin like that.
GlibcVersion leading_version(std::string_view text) {
  constexpr std::string_view kMajor = "2.";
  if (!text.starts_with(kMajor)) return {};
  text.remove_prefix(kMajor.size());
  int minor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minor);
  if (error != std::errc() || minor < 0 || minor > kLastMinor) return {};
  return {2, minor};
}

GlibcVersion version_in_file_name(std::string_view path) {
  const std::string_view name = file_name_of(path);
  constexpr std::string_view kPrefix = "libc-";
  return name.starts_with(kPrefix) ? leading_version(name.substr(kPrefix.size())) : GlibcVersion{};
}

GlibcVersion newest_symbol_version(std::string_view names) {
  constexpr std::string_view kPrefix = "GLIBC_";
  GlibcVersion newest;
  for (size_t at = names.find(kPrefix); at != names.npos; at = names.find(kPrefix, at + 1)) {
    newest = std::max(newest, leading_version(names.substr(at + kPrefix.size(), 16)));
  }
  return newest;
}

}  // namespace

GlibcVersion version_in_banner(std::string_view text) {
  constexpr std::string_view kBanner = "GNU C Library (";
  constexpr std::string_view kVersion = " release version ";
  constexpr size_t kLongestBanner = 256;
  for (size_t at = text.find(kBanner); at != text.npos; at = text.find(kBanner, at + 1)) {
    const std::string_view banner = text.substr(at, kLongestBanner);
    const size_t version = banner.substr(0, banner.find('\n')).find(kVersion);
    if (version == banner.npos) continue;
    const GlibcVersion found = leading_version(banner.substr(version + kVersion.size()));
    if (found != GlibcVersion{}) return found;
  }
  return {};
}

GlibcVersionGuess guess_glibc_version(const ElfImage& image, const std::string& path) {
  for (const std::string_view text : constant_bytes(image)) {
    if (const auto version = version_in_banner(text); version != GlibcVersion{}) {
      return {version, true};
    }
  }
  if (const auto version = version_in_file_name(path); version != GlibcVersion{}) {
    return {version, true};
  }
  return {newest_symbol_version(symbol_names(image)), false};
}

}  // namespace heapsnap
