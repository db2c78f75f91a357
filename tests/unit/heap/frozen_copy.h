// The test's own process as a target: a real libc in real memory.
//
// A forked child that never runs again holds the memory as it was, while the test goes on to use
// its own. Threads are not in the child, but their thread-local storage is.
#pragma once

#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "target/target.h"

namespace heapsnap {

class FrozenCopy : public Target, private MemoryReader, private PageResidency {
 public:
  FrozenCopy() {
    child_ = fork();
    if (child_ == 0) {
      for (;;) pause();
    }
    if (child_ < 0) throw Error(ErrorKind::kInternal, "the test cannot fork", "fork failed");
#if defined(__x86_64__)
    process_.machine = Machine::kX86_64;
#elif defined(__aarch64__)
    process_.machine = Machine::kAarch64;
#else
    process_.machine = Machine::kI386;
#endif
    process_.pid = child_;
    std::stringstream maps;
    maps << std::ifstream("/proc/" + std::to_string(child_) + "/maps").rdbuf();
    space_ = AddressSpace(parse_maps(maps.str()));
    add_thread(gettid(), thread_pointer());
  }
  FrozenCopy(const FrozenCopy&) = delete;
  FrozenCopy& operator=(const FrozenCopy&) = delete;
  ~FrozenCopy() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  static Address thread_pointer() {
    return Address(reinterpret_cast<uint64_t>(__builtin_thread_pointer()));
  }
  void add_thread(int tid, Address thread_pointer) {
    threads_.push_back({tid, "", Registers{Address(), Address(), thread_pointer}});
  }

  const Process& process() const override {
    return process_;
  }
  const AddressSpace& address_space() const override {
    return space_;
  }
  const std::vector<Thread>& threads() const override {
    return threads_;
  }
  MemoryReader& memory() override {
    return *this;
  }
  PageResidency& residency() override {
    return *this;
  }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return MappedFile::open(mapping.path);
  }

 private:
  size_t read(Address from, std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const iovec local{out.data() + done, out.size() - done};
      const iovec remote{reinterpret_cast<void*>(from.value() + done), out.size() - done};
      const ssize_t count = process_vm_readv(child_, &local, 1, &remote, 1, 0);
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }
  uint64_t page_size() const override {
    return process_.page_size;
  }
  void read(Address, std::span<PageState> out) override {
    for (PageState& state : out) state = PageState::kUnknown;
  }

  pid_t child_ = -1;
  Process process_;
  AddressSpace space_;
  std::vector<Thread> threads_;
};

}  // namespace heapsnap
