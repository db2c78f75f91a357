// A target that maps a new memfd shared, unmaps it and seals it against writing, over and over.
//
// Says "ready", and after a line
//
//   refused=0 sealed=1234
//
// how often F_ADD_SEALS was refused because somebody else had the memfd mapped (EBUSY), and how
// often it was not.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr size_t kPage = 4096;

std::atomic<bool> is_over{false};
int refused = 0;
int sealed = 0;

void map_and_seal(size_t size) {
  const int file = memfd_create("sealed", MFD_ALLOW_SEALING);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) std::exit(1);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::exit(1);
  usleep(300);
  munmap(memory, size);
  if (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0) {
    ++sealed;
  } else if (errno == EBUSY) {
    ++refused;
  }
  close(file);
}

}  // namespace

int main() {
  std::thread sealer([] {
    for (size_t turn = 0; !is_over; ++turn) map_and_seal((1 + turn % 4) * kPage);
  });
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();
  is_over = true;
  sealer.join();
  std::printf("refused=%d sealed=%d\n", refused, sealed);
  return 0;
}
