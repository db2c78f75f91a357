// The one error type: what went wrong, why, and what the reader can do about it.
//
// Thrown anywhere, caught once in main(), printed as three short lines. A damaged target heap is
// not an Error but data (heap/corruption_log.h): only what stops the command is thrown.
#pragma once

#include <stdexcept>
#include <string>

namespace heapsnap {

// The values are the exit codes of the command.
enum class ErrorKind : int {
  kUsage = 2,         // the command line cannot be carried out as written
  kNoProcess = 3,     // no such process, or it ended under our hands
  kNotPermitted = 4,  // the kernel or a security module refused
  kUnsupported = 5,   // the target has nothing that we can walk
  kBadInput = 6,      // a snapshot, core, ELF or image file is damaged or not what it claims
  kOutput = 7,        // the result could not be written
  kInternal = 70,     // a bug in heapsnap, or it got no memory for itself
};

class Error : public std::runtime_error {
 public:
  // `what`: the thing that failed, in the user's words. `why`: the cause, with the kernel's own
  // message where there is one. `remedy`: what to do, as a command where possible; may be empty.
  Error(ErrorKind kind, std::string what, std::string why, std::string remedy = {})
      : std::runtime_error(what + ": " + why),
        kind_(kind),
        what_(std::move(what)),
        why_(std::move(why)),
        remedy_(std::move(remedy)) {}

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }
  const std::string& subject() const { return what_; }
  const std::string& why() const { return why_; }
  const std::string& remedy() const { return remedy_; }
  // What else came of it, a clause behind the cause; usually empty.
  const std::string& remark() const { return remark_; }
  void set_remark(std::string remark) { remark_ = std::move(remark); }

 private:
  ErrorKind kind_;
  std::string what_;
  std::string why_;
  std::string remedy_;
  std::string remark_;
};

// "No such file or directory (ENOENT)" for an errno value.
std::string errno_text(int error_number);

}  // namespace heapsnap
