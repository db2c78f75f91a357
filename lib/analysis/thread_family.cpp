#include "analysis/thread_family.h"

namespace heapsnap {

std::string thread_family(std::string_view name) {
  std::string family;
  bool is_number = false;
  for (const char each : name) {
    const bool is_digit = each >= '0' && each <= '9';
    if (!is_digit) family += each;
    if (is_digit && !is_number) family += '*';
    is_number = is_digit;
  }
  return family;
}

}  // namespace heapsnap
