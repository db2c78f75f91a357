#include "tools/heapsnap/result_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "report/terminal_text.h"

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

void refuse_to_replace_input(const std::string& output, const std::vector<std::string>& inputs) {
  struct stat there {};
  if (output.empty() || output == "-" || ::stat(output.c_str(), &there) != 0) return;
  for (const std::string& input : inputs) {
    struct stat read {};
    if (::stat(input.c_str(), &read) != 0) continue;  // whoever opens it says why
    if (read.st_dev != there.st_dev || read.st_ino != there.st_ino) continue;
    throw Error(ErrorKind::kUsage, "cannot write to " + printable(output),
                "it is the file that is read (" + printable(input) + "), which would be lost",
                "choose another name for the output");
  }
}

}  // namespace heapsnap
