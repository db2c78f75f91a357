#include "tests/live/live_target.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap::live {

LiveTarget::LiveTarget(std::vector<std::string> command) {
  int input[2];
  int output[2];
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(input[0], 0);
    ::dup2(output[1], 1);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(input[0]);
  ::close(output[1]);
  input_ = UniqueFd(input[1]);
  output_ = UniqueFd(output[0]);
  const std::string line = read_line();
  if (line != "ready") throw std::runtime_error(command[0] + " said \"" + line + "\"");
}

LiveTarget::~LiveTarget() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string LiveTarget::read_line() {
  while (pending_.find('\n') == std::string::npos) {
    char bytes[512];
    const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    pending_.append(bytes, static_cast<size_t>(count));
  }
  const size_t end = std::min(pending_.find('\n'), pending_.size());
  const std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

void LiveTarget::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(input_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the target does not listen");
  }
}

std::map<std::string, long> LiveTarget::finish() {
  input_.reset();
  std::map<std::string, long> seen;
  std::istringstream words(read_line());
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      seen[word.substr(0, equals)] = std::atol(word.c_str() + equals + 1);
    }
  }
  ::waitpid(pid_, &exit_status_, 0);
  pid_ = -1;
  return seen;
}

std::vector<int> children_of(pid_t pid, bool with_zombies) {
  const ProcFs proc;
  std::vector<int> children;
  for (const int tid : proc.task_list(pid)) {
    std::istringstream words(
        proc.try_read(pid, "task/" + std::to_string(tid) + "/children").value_or(""));
    for (int child = 0; words >> child;) {
      const auto stat = proc.try_stat(child);
      if (stat && (with_zombies || !stat->is_dead())) children.push_back(child);
    }
  }
  return children;
}

namespace {

std::string line_of(const Mapping& mapping) {
  std::ostringstream line;
  line << std::hex << mapping.range.begin.value() << '-' << mapping.range.end.value() << ' '
       << (mapping.shared ? "shared " : "private ") << (mapping.readable ? 'r' : '-')
       << (mapping.writable ? 'w' : '-') << (mapping.executable ? 'x' : '-') << ' ' << mapping.path;
  return line.str();
}

}  // namespace

Footprint footprint_of(pid_t pid) {
  const ProcFs proc;
  Footprint footprint;
  for (const auto& entry : std::filesystem::directory_iterator(proc.path(pid, "fd"))) {
    std::error_code closed;
    const auto file = std::filesystem::read_symlink(entry.path(), closed);
    footprint.descriptors.push_back(entry.path().filename().string() + " -> " + file.string());
  }
  std::sort(footprint.descriptors.begin(), footprint.descriptors.end());
  for (const Mapping& mapping : proc.maps(pid)) footprint.mappings.push_back(line_of(mapping));
  for (const int tid : proc.task_list(pid)) {
    const std::string status = proc.try_read(tid, "status").value_or("");
    std::ostringstream line;
    line << tid << " blocks " << status_field(status, "SigBlk").value_or("") << " pending "
         << status_field(status, "SigPnd").value_or("");
    footprint.blocked_signals.push_back(line.str());
  }
  const std::string status = proc.read(pid, "status");
  for (const char* key : {"SigIgn", "SigCgt", "ShdPnd"}) {
    footprint.signal_handling += std::string(status_field(status, key).value_or("")) + " ";
  }
  footprint.tracer = static_cast<int>(status_number(status, "TracerPid").value_or(0));
  for (const int child : children_of(pid, true)) {
    const auto stat = proc.try_stat(child);
    const bool is_zombie = stat && stat->is_dead();
    footprint.children.push_back(std::to_string(child) + (is_zombie ? " (zombie)" : " (alive)"));
  }
  return footprint;
}

std::string difference(const char* what, const std::vector<std::string>& before,
                       const std::vector<std::string>& after) {
  std::string lines;
  const auto add = [&](const char* change, const std::vector<std::string>& of,
                       const std::vector<std::string>& other) {
    for (const std::string& line : of) {
      if (std::find(other.begin(), other.end(), line) != other.end()) continue;
      lines += std::string(what) + change + line + "\n";
    }
  };
  add(" gone: ", before, after);
  add(" new: ", after, before);
  return lines;
}

std::string difference(const Footprint& before, const Footprint& after) {
  return difference("file", before.descriptors, after.descriptors) +
         difference("mapping", before.mappings, after.mappings) +
         difference("thread", before.blocked_signals, after.blocked_signals) +
         difference("signals", {before.signal_handling}, {after.signal_handling}) +
         difference("tracer", {std::to_string(before.tracer)}, {std::to_string(after.tracer)}) +
         difference("child", before.children, after.children);
}

int scaled(int ordinary, int when_long) {
  const char* const wanted = std::getenv("HEAPSNAP_LONG");
  return wanted != nullptr && std::string(wanted) == "1" ? when_long : ordinary;
}

}  // namespace heapsnap::live
