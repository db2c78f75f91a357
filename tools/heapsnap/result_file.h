// Where a command writes its result: a file that appears complete or not at all
// (snapshot/output_file.h), or standard output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/writer.h"
#include "snapshot/output_file.h"

namespace heapsnap {

class ResultFile {
 public:
  // "" and "-" are standard output, which may be a terminal here. Throws as OutputFile does.
  ResultFile(const std::string& path, bool replace);

  Writer& writer() { return *writer_; }
  bool is_terminal() const;
  // To be called when all is written: the file gets its name. Throws Error{kOutput}.
  void commit();

 private:
  std::optional<OutputFile> file_;
  std::optional<Writer> writer_;
};

// Throws Error{kUsage} where `output` is the file of one of `inputs`, by whatever path: to replace
// it, as with -f, would lose what was read. To be called before anything is.
void refuse_to_replace_input(const std::string& output, const std::vector<std::string>& inputs);

}  // namespace heapsnap
