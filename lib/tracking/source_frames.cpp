#include "tracking/source_frames.h"

#include <algorithm>
#include <tuple>

#include "tracking/function_name.h"

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

bool is_named(const SourceFrames& symbols, std::span<const SourceFrame> frames) {
  return std::any_of(frames.begin(), frames.end(), [&symbols](const SourceFrame& frame) {
    const std::string& name = symbols.text(frame.function);
    return !name.empty() && !is_name_of_start(name);
  });
}

SourceFrames with_names_of(const SourceFrames& known, const SourceFrames& found) {
  SourceFrames all;
  const auto add = [&all](const SourceFrames& from, const SourceFrames::Place& place) {
    std::vector<SourceFrame> frames;
    for (SourceFrame frame : from.at(place.module, place.return_address)) {
      frame.function = all.intern(from.text(frame.function));
      frame.file = all.intern(from.text(frame.file));
      frames.push_back(frame);
    }
    all.add(place.module, place.return_address, frames);
  };
  for (const SourceFrames::Place& place : known.places()) {
    const auto there = found.at(place.module, place.return_address);
    const bool is_better =
        is_named(found, there) && !is_named(known, known.at(place.module, place.return_address));
    add(is_better ? found : known, place);
  }
  for (const SourceFrames::Place& place : found.places()) {
    if (known.at(place.module, place.return_address).empty()) add(found, place);
  }
  all.sort();
  return all;
}

}  // namespace heapsnap
