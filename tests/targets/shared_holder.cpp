// A target that has files mapped shared, in the ways that somebody else may notice, and gives them
// up when it is told to.
//
// Says "ready", then where a mapping lies that begins with "shared with all", in hexadecimal; after
// a line it gives all up and says
//
//   seals=0 lease=0 attached=0
//
// the errno of F_ADD_SEALS on a memfd, that of F_SETLEASE on a file, and how many others have its
// two System V segments attached. The first one has the id 0 where the target may have an IPC
// namespace of its own. With a number as argument it maps so many pages more, each by itself.
#include <fcntl.h>
#include <sched.h>
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

struct Segment {
  int id = 0;
  void* memory = nullptr;
};

Segment attach_segment() {
  const int id = shmget(IPC_PRIVATE, kSize, IPC_CREAT | 0600);
  const Segment segment{id, shmat(id, nullptr, 0)};
  shmctl(id, IPC_RMID, nullptr);  // gone with the last who has it
  return segment;
}

// Detaches it, too.
unsigned long others_attached(const Segment& segment) {
  shmid_ds status{};
  shmctl(segment.id, IPC_STAT, &status);
  shmdt(segment.memory);
  return static_cast<unsigned long>(status.shm_nattch - 1);
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
  unshare(CLONE_NEWIPC);
  const Segment segments[] = {attach_segment(), attach_segment()};

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
  const auto attached = others_attached(segments[0]) + others_attached(segments[1]);
  unlink(path.c_str());
  std::printf("seals=%d lease=%d attached=%lu\n", seals, lease, attached);
  return 0;
}
