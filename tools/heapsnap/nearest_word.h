// What was probably meant by a word with a typing error.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heapsnap {

// The candidate to which at most two letters have to be put in, taken out or changed; empty where
// none is so near.
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

}  // namespace heapsnap
