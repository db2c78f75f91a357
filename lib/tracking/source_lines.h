// The DWARF of one file: which functions, inlined ones too, and which line an address belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heapsnap {

// A frame of which the names are still texts of their own.
struct CodeFrame {
  std::string function;  // demangled; empty: not known
  std::string file;
  uint32_t line = 0;
  uint64_t offset = 0;  // from the begin of the function
  bool is_inlined = false;
  bool operator==(const CodeFrame&) const = default;
};

class SourceLines {
 public:
  // Of an ELF file with .debug_info, whose bytes must outlive this. Null when it has none that can
  // be read.
  static std::unique_ptr<SourceLines> open(std::span<const std::byte> file);
  ~SourceLines();

  // The frames of an address of the file, innermost first; the last one is not inlined. Empty when
  // no compilation unit covers it.
  std::vector<CodeFrame> frames_at(uint64_t address);

 private:
  struct State;
  explicit SourceLines(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
