#include "tools/heapsnap/typed_address.h"

#include <charconv>

namespace heapsnap {

std::optional<Address> parse_address(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  const char* const last = text.data() + text.size();
  uint64_t address = 0;
  const auto [end, error] = std::from_chars(text.data(), last, address, 16);
  if (error != std::errc() || end != last) return std::nullopt;
  return Address(address);
}

}  // namespace heapsnap
