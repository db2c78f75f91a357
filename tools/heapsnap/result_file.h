// Where a command writes its result: a file that appears complete or not at all
// (snapshot/output_file.h), or standard output.
#pragma once

#include <optional>
#include <string>

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

}  // namespace heapsnap
