#include "heap/in_place/list_answers.h"

#include <algorithm>

namespace heapsnap {

std::vector<ListPass> ListAnswers::passes(std::span<const ListScan> lists, uint64_t* buffer) {
  if (buffer == nullptr) buffer = words_.data();
  room_ = words_.size() / std::max<size_t>(lists.size(), 1);
  std::vector<ListPass> passes(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    passes[i].scan = lists[i];
    passes[i].answers = buffer + i * room_;
    passes[i].room = room_;
  }
  return passes;
}

std::span<const ListedChunks> ListAnswers::told(std::span<const ListPass> passes,
                                                std::span<ListScan> lists) {
  told_.clear();
  for (size_t i = 0; i < lists.size(); ++i) {
    const auto backward = part(i).last(passes[i].backward);
    std::reverse(backward.begin(), backward.end());
    told_.push_back({part(i).first(passes[i].forward), backward});
    lists[i] = passes[i].scan;
  }
  return told_;
}

}  // namespace heapsnap
