#include "references/local_name.h"

#include <charconv>

namespace heapsnap {

namespace {

constexpr std::string_view kIn = " in ";
constexpr std::string_view kAt = " at ";

}  // namespace

std::string local_name(const LocalName& parts) {
  std::string name(parts.variable);
  if (!parts.function.empty()) name.append(kIn).append(parts.function);
  if (parts.file.empty()) return name;
  name.append(kAt).append(parts.file);
  if (parts.line != 0) name += ":" + std::to_string(parts.line);
  return name;
}

bool is_temporary(std::string_view name) {
  return split_local(name).variable == kTemporary || may_be_left_over(name);
}

bool may_be_left_over(std::string_view name) {
  return split_local(name).variable == kPerhapsTemporary;
}

std::string_view local_without_line(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == name.size()) return name;
  const bool is_line = name.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return is_line ? name.substr(0, colon) : name;
}

std::string_view call_of_local(std::string_view name) {
  const size_t in = name.find(kIn);
  return in == std::string_view::npos ? std::string_view() : name.substr(in + kIn.size());
}

LocalName split_local(std::string_view name) {
  LocalName parts;
  const std::string_view call = call_of_local(name);
  parts.variable = call.empty() ? name : name.substr(0, name.size() - call.size() - kIn.size());
  const size_t at = call.find(kAt);
  parts.function = call.substr(0, at);
  if (at == std::string_view::npos) return parts;
  const std::string_view place = call.substr(at + kAt.size());
  parts.file = local_without_line(place);
  if (parts.file.size() < place.size()) {
    const std::string_view digits = place.substr(parts.file.size() + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), parts.line);
  }
  return parts;
}

}  // namespace heapsnap
