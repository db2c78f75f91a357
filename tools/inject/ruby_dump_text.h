// What the process is asked to evaluate, and what its answer looks like.
//
//   heapsnap-ruby begin 3.1.2       then lines of ObjectSpace.dump_all
//   {"address":"0x7f...", ...}
//   heapsnap-ruby end               or: heapsnap-ruby failed LoadError: cannot load such file
//
// Every other line begins with a brace, so that none is taken for the first or last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace heapsnap {

// Folders where the FIFO may be, as the process sees them; the first that takes one.
inline constexpr std::array<const char*, 4> kFifoFolders{"/dev/shm", "/run", "/tmp", "/var/tmp"};

// The program text. `name`: of the FIFO, letters, digits, dots and dashes only.
std::string ruby_dump_text(std::string_view name);

// Takes an answer apart, in parts of any size. What is before the first line, and behind the last
// one, is no answer.
class RubyDumpAnswer {
 public:
  using Receive = std::function<void(std::span<const char>)>;
  // `receive`: lines between the two; parts of lines when they are long.
  explicit RubyDumpAnswer(Receive receive) : receive_(std::move(receive)) {}

  // Throws Error{kUnsupported} where it says that it failed, or is no answer.
  void take(std::span<const char> part);

  const std::string& version() const { return version_; }  // empty: it has not begun
  bool has_ended() const { return has_ended_; }
  uint64_t lines() const { return lines_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kLongestWord = 512;  // a line of ours
  void take_word(std::string_view line);
  void pass_on(std::span<const char> text);

  Receive receive_;
  std::string line_;  // what may become a line of ours
  std::string version_;
  bool is_in_line_ = false;  // of the dump
  bool has_ended_ = false;
  uint64_t lines_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace heapsnap
