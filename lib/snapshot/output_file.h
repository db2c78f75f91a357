// A file that appears under its name complete or not at all.
//
// Until commit() it has no name (O_TMPFILE), or, where the file system cannot do that, a hidden
// temporary one beside the final one. A writer that is killed leaves nothing under the final name.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/alteration.h"
#include "base/unique_fd.h"

namespace heapsnap {

class OutputFile {
 public:
  enum class Temporary { kUnnamedIfPossible, kNamed };

  // `path` "-" is standard output: no name, no temporary, may be a pipe.
  // The file gets mode 0600, whatever the umask. Throws Error{kUsage} when `path` exists and
  // `overwrite` is not given, when it is a symlink or no regular file, or when standard output is a
  // terminal; Error{kOutput} when the folder cannot be written. With `folder`, a descriptor of a
  // folder, the file is put there under the last part of `path`, and no other part is looked up.
  // With `file`, a descriptor, what is written takes the place of what is in that file, which gets
  // no name; `path` is the folder that it is in.
  OutputFile(const std::string& path, bool overwrite,
             Temporary temporary = Temporary::kUnnamedIfPossible, int folder = -1, int file = -1);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without commit(): nothing is left behind

  // Gives it mode 0644: for what others are to read and what holds nothing of a target's memory.
  void let_everyone_read();

  // Throws Error{kOutput}, and EndAsked while a reader does not read. SIGPIPE and SIGXFSZ are
  // suppressed: they become errors like any other.
  void append(std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }  // bytes appended so far
  // A path to the folder of the file; empty for standard output. Valid as long as this object.
  const std::string& directory() const { return directory_; }

  // Writes what is buffered, as append(), syncs, and gives the file its name. An existing file is
  // replaced in one step, and only with `overwrite`; a symlink is never followed.
  void commit();

 private:
  // What may have a reader that does not read; kPipe does not block.
  enum class Kind { kOther, kPipe, kBlockingPipe, kSocket };

  void open_given(int file);
  void open_temporary(Temporary kind);
  void flush();
  void open_pipe();
  void wait_for_reader() const;
  ssize_t write_some(std::span<const std::byte> bytes) const;
  void write_all(std::span<const std::byte> bytes);
  void publish_new();
  void publish_over();
  void link_to(const std::string& name);
  [[noreturn]] void fail(int error_number) const;
  [[noreturn]] void refuse_existing() const;

  std::string path_;
  std::string directory_;
  std::string name_;
  std::string temporary_name_;            // empty while the file has none
  std::optional<Alteration> alteration_;  // from before it has that name on
  bool overwrite_ = false;
  Kind kind_ = Kind::kOther;
  UniqueFd directory_fd_;
  UniqueFd fd_;
  uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

// Whether a file may be the temporary one of a writer that was killed:
// ".heapsnap-0123456789abcdef.tmp".
bool is_temporary_name(std::string_view name);

// What to do about an error of write(2) and its relatives.
std::string output_remedy(int error_number);

}  // namespace heapsnap
