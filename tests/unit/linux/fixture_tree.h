// A temporary folder with files in the place of /proc or /sys; gone with its owner.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

class FixtureTree {
 public:
  FixtureTree() {
    std::string name = (std::filesystem::temp_directory_path() / "heapsnap-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    root_ = name;
  }
  FixtureTree(const FixtureTree&) = delete;
  FixtureTree& operator=(const FixtureTree&) = delete;
  ~FixtureTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::string path(const std::string& relative = {}) const {
    return relative.empty() ? root_.string() : (root_ / relative).string();
  }

  // Creates the file and the folders above it.
  void write(const std::string& relative, const std::string& text) const {
    const std::filesystem::path file = root_ / relative;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void link(const std::string& relative, const std::string& target) const {
    const std::filesystem::path file = root_ / relative;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
  }

 private:
  std::filesystem::path root_;
};

inline KernelFiles files_of(const FixtureTree& tree) {
  return {tree.path("proc"), tree.path("sys")};
}

}  // namespace heapsnap
