// A running core_fixture: what it says of itself, and the cores made of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/unique_fd.h"
#include "target/mapping.h"

namespace heapsnap::test {

class CoreProcess {
 public:
  // Starts it and waits until it is ready. With a `folder` it works there, may leave a core and
  // ends itself by abort().
  explicit CoreProcess(const std::string& program, const std::string& folder = {});
  CoreProcess(const CoreProcess&) = delete;
  CoreProcess& operator=(const CoreProcess&) = delete;
  ~CoreProcess();

  int pid() const { return pid_; }
  AddressRange buffer() const { return buffer_; }
  const std::map<int, Address>& threads() const { return threads_; }  // tid to thread pointer
  std::vector<Mapping> mappings() const;

  // Path of the core that gcore made in `folder`; empty when it made none.
  std::string gcore(const std::string& folder) const;
  // Waits for the end of an aborting one. Path of the core that the kernel left in its folder;
  // empty when there is none.
  std::string kernel_core();

 private:
  std::string folder_;
  int pid_ = -1;
  bool has_ended_ = false;
  UniqueFd input_;
  AddressRange buffer_;
  std::map<int, Address> threads_;
};

}  // namespace heapsnap::test
