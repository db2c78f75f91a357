// Whether a pass that costs time is made.
#pragma once

#include <optional>
#include <string_view>

namespace heapsnap {

enum class CaptureChoice { kAuto, kYes, kNo };  // kAuto: where it costs little

// Of "auto", "yes" and "no"; nothing for anything else.
inline std::optional<CaptureChoice> parse_capture_choice(std::string_view text) {
  if (text == "auto") return CaptureChoice::kAuto;
  if (text == "yes") return CaptureChoice::kYes;
  if (text == "no") return CaptureChoice::kNo;
  return std::nullopt;
}

}  // namespace heapsnap
