#include "tools/heapsnap/pass_over_options.h"

#include <sstream>

#include "base/error.h"
#include "base/mapped_file.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestPatternFile = 1 << 20;

// One pattern per line; empty lines and lines that start with "#" are skipped.
void add_patterns_of(const std::string& path, PassedFrames& passed) {
  const MappedFile file = MappedFile::open(path);
  if (file.bytes().size() > kLongestPatternFile) {
    throw Error(ErrorKind::kBadInput, "--pass-over-file " + path, "it is larger than 1 MiB");
  }
  std::istringstream lines(
      std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    passed.add(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
}

}  // namespace

void add_pass_over_options(OptionParser& parser, PassOverOptions& options) {
  parser.texts("pass-over", options.patterns, "PATTERN",
               "where memory is charged to functions or modules, pass over functions whose name "
               "matches (\"*\" matches any text, \"!PATTERN\" charges them after all); may be "
               "repeated");
  parser.text("pass-over-file", options.file, "FILE", "read such patterns from FILE, one per line");
}

PassedFrames passed_frames(const PassOverOptions& options) {
  PassedFrames passed;
  if (!options.file.empty()) add_patterns_of(options.file, passed);
  for (const std::string& pattern : options.patterns) {
    if (pattern.empty() || pattern == "!") {
      throw Error(ErrorKind::kUsage, "--pass-over '" + pattern + "'", "it names no function",
                  "for example: --pass-over 'my_*alloc'");
    }
    passed.add(pattern);
  }
  return passed;
}

}  // namespace heapsnap
