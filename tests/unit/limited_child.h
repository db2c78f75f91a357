// Runs something in a child that may use only so much processor time and memory: what is not linear
// in its input, or not bounded, ends there instead of going on for minutes.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

namespace heapsnap::test {

struct Limits {
  uint64_t cpu_seconds = 0;
  uint64_t memory = 0;  // bytes of address space beyond what there is now; 0: no limit
};

inline uint64_t address_space_of_this() {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return uint64_t{pages} * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// "" when `act` came to its end and did not throw; else what happened instead.
inline std::string end_within(const Limits& limits, const std::function<void()>& act) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{limits.cpu_seconds, limits.cpu_seconds};
    ::setrlimit(RLIMIT_CPU, &limit);
#if !defined(__SANITIZE_ADDRESS__)
    if (limits.memory != 0) {
      limit.rlim_cur = limit.rlim_max = address_space_of_this() + limits.memory;
      ::setrlimit(RLIMIT_AS, &limit);
    }
#endif
    std::string result;
    try {
      act();
    } catch (const std::exception& error) {
      result = error.what();
      if (result.empty()) result = "an exception without words";
    }
    const ssize_t written = ::write(pipe_ends[1], result.data(), result.size());
    ::_exit(written == static_cast<ssize_t>(result.size()) ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  std::string result;
  char text[512];
  for (ssize_t size = 0; (size = ::read(pipe_ends[0], text, sizeof text)) > 0;) {
    result.append(text, static_cast<size_t>(size));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return result;
}

}  // namespace heapsnap::test
