#include "tools/heapsnap/result_file.h"

#include <unistd.h>

namespace heapsnap {

ResultFile::ResultFile(const std::string& path, bool replace) {
  if (path.empty() || path == "-") {
    writer_.emplace(STDOUT_FILENO, "standard output");
  } else {
    writer_.emplace(file_.emplace(path, replace));
  }
}

bool ResultFile::is_terminal() const {
  return !file_ && ::isatty(STDOUT_FILENO) == 1;
}

void ResultFile::commit() {
  writer_->flush();
  if (file_) file_->commit();
}

}  // namespace heapsnap
