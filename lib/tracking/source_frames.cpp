#include "tracking/source_frames.h"

#include <algorithm>
#include <tuple>

namespace heapsnap {

namespace {

bool comes_before(const SourceFrames::Place& a, const SourceFrames::Place& b) {
  return std::tie(a.return_address, a.module) < std::tie(b.return_address, b.module);
}

}  // namespace

uint32_t SourceFrames::intern(std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() > kMostTextBytes - text_bytes_) {
    const auto known = index_.find(std::string(text));
    is_full_ |= known == index_.end();
    return known == index_.end() ? 0 : known->second;
  }
  const auto [entry, is_new] =
      index_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size()));
  if (is_new) {
    strings_.emplace_back(text);
    text_bytes_ += text.size();
  }
  return entry->second;
}

void SourceFrames::add(int32_t module, Address return_address,
                       std::span<const SourceFrame> frames) {
  if (frames.empty()) return;
  if (frames.size() > kMostFrames - frames_.size()) {
    is_full_ = true;
    return;
  }
  places_.push_back({module, return_address, static_cast<uint32_t>(frames_.size()),
                     static_cast<uint32_t>(frames.size())});
  frames_.insert(frames_.end(), frames.begin(), frames.end());
}

void SourceFrames::sort() {
  std::stable_sort(places_.begin(), places_.end(), comes_before);
}

std::span<const SourceFrame> SourceFrames::at(int32_t module, Address return_address) const {
  const Place wanted{module, return_address, 0, 0};
  const auto found = std::lower_bound(places_.begin(), places_.end(), wanted, comes_before);
  if (found == places_.end() || comes_before(wanted, *found)) return {};
  return std::span(frames_).subspan(found->first, found->count);
}

void SourceFrames::set_strings(std::vector<std::string> strings) {
  strings_ = std::move(strings);
  if (strings_.empty()) strings_.emplace_back();
}

}  // namespace heapsnap
