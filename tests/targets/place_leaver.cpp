// A target that leaves its process group and its working directory for good.
//
// It leads a group of its own and works in a file system of its own, where it may mount one. Says
// "ready"; after a line it enters another group, then a new session, leaves the directory, unmounts
// the file system, and says what could not be done, as errno of each (0: nothing, -1: not tried):
//
//   setsid=0 umount=0
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

// A directory that is a file system of this process's own; empty without the right to mount.
const char* enter_own_file_system() {
  static char directory[] = "/tmp/place_leaver.XXXXXX";
  if (mkdtemp(directory) == nullptr) return "";
  const bool is_mounted = unshare(CLONE_NEWNS) == 0 &&
                          mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          mount("none", directory, "tmpfs", 0, nullptr) == 0;
  if (is_mounted && chdir(directory) == 0) return directory;
  rmdir(directory);
  return "";
}

}  // namespace

int main() {
  if (setpgid(0, 0) != 0) return 1;
  int to_other[2];
  if (pipe(to_other) != 0) return 1;
  const pid_t other = fork();
  if (other == 0) {
    close(to_other[1]);
    char end;
    _exit(read(to_other[0], &end, 1) == 0 ? 0 : 1);
  }
  if (other < 0 || setpgid(other, other) != 0) return 1;
  const char* const directory = enter_own_file_system();

  std::puts("ready");
  std::fflush(stdout);
  std::getchar();

  if (setpgid(0, other) != 0) return 1;
  const int session = setsid() < 0 ? errno : 0;
  int mounted = -1;
  if (*directory != 0) {
    mounted = chdir("/") == 0 && umount(directory) == 0 ? 0 : errno;
    if (mounted == 0) rmdir(directory);
  }
  std::printf("setsid=%d umount=%d\n", session, mounted);
  return 0;
}
