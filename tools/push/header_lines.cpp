#include "tools/push/header_lines.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"

namespace heapsnap {

namespace {

// RFC 9110: token.
bool is_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_own_header(const std::string& name) {
  const char* const own[] = {"Content-Length", "Content-Type", "Transfer-Encoding", "Host",
                             "Expect"};
  return std::any_of(std::begin(own), std::end(own),
                     [&](const char* each) { return ::strcasecmp(each, name.c_str()) == 0; });
}

}  // namespace

std::vector<std::string> parse_header_lines(std::string_view text, const std::string& source) {
  std::vector<std::string> headers;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    const std::string name(line.substr(0, std::min(colon, line.size())));
    const bool is_clean = std::all_of(line.begin(), line.end(), [](char c) {
      return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
    });
    if (colon == std::string_view::npos || !is_header_name(name) || !is_clean) {
      throw Error(ErrorKind::kUsage, fmt::format("line {} of {}", number, source),
                  "it is no header of HTTP", "write a header a line: Authorization: Bearer TOKEN");
    }
    if (is_own_header(name)) {
      throw Error(ErrorKind::kUsage, fmt::format("line {} of {}", number, source),
                  "heapsnap itself sets " + name, "leave the line out");
    }
    headers.emplace_back(line);
  }
  return headers;
}

std::vector<std::string> read_header_file(const std::string& path) {
  constexpr size_t kLongest = 64 * 1024;
  const MappedFile file = MappedFile::open(path);
  if (file.bytes().size() > kLongest) {
    throw Error(ErrorKind::kBadInput, "--header-file " + path, "it is larger than 64 KiB");
  }
  const std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  file.check_whole(path);
  return parse_header_lines(text, path);
}

}  // namespace heapsnap
