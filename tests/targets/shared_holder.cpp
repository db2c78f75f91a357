// A target that has files mapped shared, in the ways that somebody else may notice, and gives them
// up when it is told to.
//
// Says "ready", then where a mapping lies that begins with "shared with all", in hexadecimal; after
// a line it gives all up and says
//
//   seals=0 lease=0 attached=0
//
// the errno of F_ADD_SEALS on a memfd, that of F_SETLEASE on a file, and how many have the System V
// segment attached. With a number as argument it maps so many pages more, each by itself.
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSize = 16 * kPage;

void* map_shared(int file) {
  void* const memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return memory;
}

int error_of(int result) {
  return result == 0 ? 0 : errno;
}

}  // namespace

int main(int argc, char** argv) {
  const int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
  std::string path = "/tmp/heapsnap-shared.XXXXXX";
  int leased = mkstemp(path.data());
  if (sealed < 0 || leased < 0 || ftruncate(sealed, kSize) != 0 || ftruncate(leased, kSize) != 0) {
    return 1;
  }
  void* const of_sealed = map_shared(sealed);
  void* const of_leased = map_shared(leased);
  close(leased);  // held by its mapping alone
  std::strcpy(static_cast<char*>(of_sealed), "shared with all");
  const int segment = shmget(IPC_PRIVATE, kSize, IPC_CREAT | 0600);
  void* const of_segment = shmat(segment, nullptr, 0);
  shmctl(segment, IPC_RMID, nullptr);  // gone with the last who has it

  const int more = argc > 1 ? std::atoi(argv[1]) : 0;
  for (int i = 0; i < more; ++i) {
    // Every second page of the file, so that no two are one to the kernel.
    void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, sealed,
                            static_cast<off_t>(i % 2 * 2 * kPage));
    if (page == MAP_FAILED) return 1;
  }
  std::printf("ready\n%" PRIxPTR "\n", reinterpret_cast<uintptr_t>(of_sealed));
  std::fflush(stdout);

  std::string line;
  for (int c = std::getchar(); c != '\n' && c != EOF; c = std::getchar())
    line += static_cast<char>(c);
  munmap(of_sealed, kSize);
  munmap(of_leased, kSize);
  const int seals = more != 0 ? 0 : error_of(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE));
  leased = open(path.c_str(), O_RDWR);
  const int lease = error_of(fcntl(leased, F_SETLEASE, F_WRLCK));
  shmid_ds status{};
  shmctl(segment, IPC_STAT, &status);
  const auto attached = status.shm_nattch - 1;  // but for itself
  shmdt(of_segment);
  unlink(path.c_str());
  std::printf("seals=%d lease=%d attached=%lu\n", seals, lease,
              static_cast<unsigned long>(attached));
  return 0;
}
