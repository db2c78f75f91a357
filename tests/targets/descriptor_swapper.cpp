// A hostile target: whenever it is told to, it puts a descriptor of its own choice in the place of
// each memory file that is open in it.
//
//   descriptor_swapper VICTIM USER     VICTIM is opened by O_PATH, then it becomes user USER
//
// Says "ready", answers each line of its standard input by "swapped" once it is done, and ends with
// it, saying "errors=0". Who obeys is another process with the same table of descriptors, so it
// does also when all threads of this one are stopped.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

int victim = -1;

void swap_memory_files() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) std::abort();
  while (const dirent* const entry = readdir(folder)) {
    std::array<char, 256> file{};
    if (readlinkat(dirfd(folder), entry->d_name, file.data(), file.size() - 1) <= 0) continue;
    if (std::strncmp(file.data(), "/memfd:", 7) == 0) dup2(victim, std::atoi(entry->d_name));
  }
  closedir(folder);
}

int obey(void*) {
  char byte = 0;
  while (read(0, &byte, 1) == 1) {
    swap_memory_files();
    if (write(1, "swapped\n", 8) != 8) std::abort();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  victim = open(argv[1], O_PATH | O_CLOEXEC);
  const auto user = static_cast<uid_t>(std::atoi(argv[2]));
  if (victim < 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) return 2;
  prctl(PR_SET_DUMPABLE, 1);
  std::thread other([] { pause(); });
  static std::array<char, 64 << 10> stack;
  const pid_t accomplice = clone(obey, stack.data() + stack.size(), CLONE_FILES | SIGCHLD, nullptr);
  if (accomplice < 0) return 2;
  std::puts("ready");
  std::fflush(stdout);
  waitpid(accomplice, nullptr, 0);
  std::puts("errors=0");
  std::fflush(stdout);
  _exit(0);
}
