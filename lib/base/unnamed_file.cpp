#include "base/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alteration.h"

namespace heapsnap {

UniqueFd open_unnamed_file(const std::string& folder) {
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  const Alteration alteration;
  std::string name = folder + "/.heapsnap-file-XXXXXX";
  file.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

}  // namespace heapsnap
