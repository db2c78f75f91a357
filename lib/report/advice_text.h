// Advice in words.
#pragma once

#include <string>

#include "analysis/advice.h"

namespace heapsnap {

struct AdviceText {
  std::string finding;  // what there is, with its numbers
  std::string action;   // what to do
};

AdviceText advice_text(const Advice& advice);

}  // namespace heapsnap
