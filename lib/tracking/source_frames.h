// The source frames of the return addresses of call stacks: function, file and line of each,
// including functions that the compiler inlined there.
//
// A return address has one frame for each function inlined at the call, innermost first, followed
// by one for the function that contains the code:
//
//   0x55d0c2f0  ─►  vector::push_back  vector.h:1210  (inlined)
//                   parse              parse.cpp:42
//
// Addresses of which nothing is known have no entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "tracking/interpreted_frames.h"

namespace heapsnap {

struct SourceFrame {
  uint32_t function = 0;  // index into strings(); 0: not known
  uint32_t file = 0;      // the same
  uint32_t line = 0;      // 0: not known
  uint64_t offset = 0;    // of the address in the function; 0 for inlined ones
  bool is_inlined = false;
  FrameLanguage language = FrameLanguage::kNative;
  bool operator==(const SourceFrame&) const = default;
};

class SourceFrames {
 public:
  struct Place {
    int32_t module = -1;     // index into TrackerRecord::modules
    Address return_address;  // as on the stack
    uint32_t first = 0;      // index into frames()
    uint32_t count = 0;
    bool operator==(const Place&) const = default;
  };

  SourceFrames() : strings_(1) {}

  // The limits of a snapshot. Texts and frames beyond them are left out.
  static constexpr uint64_t kMostTextBytes = 256U << 20;
  static constexpr uint64_t kMostFrames = 64U << 20;
  // Whether something was left out because of them.
  bool is_full() const { return is_full_; }

  // The index of a text; equal texts are stored once.
  uint32_t intern(std::string_view text);
  // Adds the frames of an address; may be called once per address.
  void add(int32_t module, Address return_address, std::span<const SourceFrame> frames);

  // Innermost first; empty when nothing is known. Fast after sort().
  std::span<const SourceFrame> at(int32_t module, Address return_address) const;
  const std::string& text(uint32_t index) const { return strings_[index]; }

  bool is_empty() const { return places_.empty(); }
  const std::vector<std::string>& strings() const { return strings_; }  // the first is empty
  const std::vector<Place>& places() const { return places_; }
  const std::vector<SourceFrame>& frames() const { return frames_; }

  // To be called after the last add() and before the first at().
  void sort();
  // For readers of snapshots: takes the strings in the order of the file, the first one empty.
  void set_strings(std::vector<std::string> strings);

 private:
  bool is_full_ = false;
  uint64_t text_bytes_ = 0;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, uint32_t> index_;
  std::vector<Place> places_;
  std::vector<SourceFrame> frames_;
};

// Whether one of `frames` has a function's name, rather than that of its start
// (is_name_of_start()).
bool is_named(const SourceFrames& symbols, std::span<const SourceFrame> frames);

// `known`, with the frames of `found` for addresses that have no name in it. sort() was called for
// both.
SourceFrames with_names_of(const SourceFrames& known, const SourceFrames& found);

}  // namespace heapsnap
