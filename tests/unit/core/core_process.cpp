#include "core_process.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace heapsnap::test {

CoreProcess::CoreProcess(const std::string& program, const std::string& folder) : folder_(folder) {
  int to_child[2];
  int from_child[2];
  if (::pipe(to_child) != 0 || ::pipe(from_child) != 0) throw std::runtime_error("pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(to_child[0], STDIN_FILENO);
    ::dup2(from_child[1], STDOUT_FILENO);
    for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) ::close(fd);
    const char* aborts = nullptr;
    if (!folder.empty()) {
      const rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
      ::setrlimit(RLIMIT_CORE, &limit);
      aborts = "abort";
    }
    ::execl(program.c_str(), program.c_str(), aborts, nullptr);
    ::_exit(127);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  input_.reset(to_child[1]);
  if (pid_ < 0) throw std::runtime_error("fork");

  FILE* output = ::fdopen(from_child[0], "r");
  char line[200];
  bool is_ready = false;
  while (!is_ready && std::fgets(line, sizeof(line), output) != nullptr) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "buffer") {
      uint64_t begin = 0;
      uint64_t size = 0;
      words >> std::hex >> begin >> std::dec >> size;
      buffer_ = {Address(begin), Address(begin + size)};
    } else if (what == "thread") {
      int tid = 0;
      uint64_t pointer = 0;
      words >> tid >> std::hex >> pointer;
      threads_[tid] = Address(pointer);
    } else {
      is_ready = what == "ready";
    }
  }
  std::fclose(output);
  if (!is_ready) throw std::runtime_error(program + " did not get ready");
}

CoreProcess::~CoreProcess() {
  if (has_ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::vector<Mapping> CoreProcess::mappings() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/maps");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_maps(text.str());
}

std::string CoreProcess::gcore(const std::string& folder) const {
  const std::string command =
      "gcore -o '" + folder + "/core' " + std::to_string(pid_) + " >/dev/null 2>&1";
  const std::string path = folder + "/core." + std::to_string(pid_);
  return std::system(command.c_str()) == 0 && std::filesystem::exists(path) ? path : std::string();
}

std::string CoreProcess::kernel_core() {
  ::waitpid(pid_, nullptr, 0);
  has_ended_ = true;
  std::string path;
  for (const std::string& name : {std::string("/core"), "/core." + std::to_string(pid_)}) {
    if (std::filesystem::exists(folder_ + name)) path = folder_ + name;
  }
  return path;
}

}  // namespace heapsnap::test
