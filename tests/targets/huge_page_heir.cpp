// A process that has inherited private huge pages, and has taken the last one of the machine's
// pool.
//
// Its parent maps and touches all of the pool but one, and waits for it. It writes to the first of
// these pages, which gives it the last one as a page of its own, says "ready PID", and goes on
// writing there until standard input ends. The exit code is that of the parent: 0 if the heir ended
// by itself, 1 if a signal ended it, 2 if there are no huge pages.
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// A line of /proc/meminfo.
unsigned long memory_line(const char* name) {
  FILE* const file = std::fopen("/proc/meminfo", "re");
  unsigned long value = 0;
  char line[128];
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) {
      value = std::strtoul(line + std::strlen(name), nullptr, 10);
    }
  }
  if (file != nullptr) std::fclose(file);
  return value;
}

void write_until_end(volatile char* page) {
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  do {
    for (int i = 0; i < 10'000; ++i) page[i % 2048] = static_cast<char>(i);
  } while (poll(&input, 1, 0) == 0);
}

}  // namespace

int main() {
  const unsigned long page_size = memory_line("Hugepagesize:") << 10;
  const unsigned long pages = memory_line("HugePages_Free:") - memory_line("HugePages_Rsvd:");
  if (page_size == 0 || pages < 2) return 2;
  const size_t size = (pages - 1) * page_size;
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto* const bytes = static_cast<char*>(memory);
  for (size_t at = 0; at < size; at += page_size) bytes[at] = 1;
  const pid_t heir = fork();
  if (heir == 0) {
    bytes[0] = 2;
    write_until_end(bytes);
    _exit(0);
  }
  int status = 0;
  if (waitpid(heir, &status, 0) != heir) return 1;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
