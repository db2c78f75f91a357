// parse_maps() and parse_smaps() on any text: they throw Error{kBadInput} or give mappings that are
// ordered, disjoint and not empty, and nothing else.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "target/address_space.h"
#include "target/mapping.h"

namespace {

using heapsnap::Error;
using heapsnap::ErrorKind;
using heapsnap::Mapping;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const std::vector<Mapping>& mappings) {
  for (size_t i = 0; i < mappings.size(); ++i) {
    require(!mappings[i].range.is_empty());
    if (i > 0) require(mappings[i - 1].range.end <= mappings[i].range.begin);
  }
  const heapsnap::AddressSpace space(mappings);
  for (const Mapping& mapping : mappings) {
    require(space.find(mapping.range.begin) != nullptr);
    require(space.find(mapping.range.begin)->range == mapping.range);
    const heapsnap::AddressRange run = space.writable_run(mapping.range.begin);
    require(run.is_empty() || run.contains(mapping.range.begin));
  }
}

template <typename Parse>
void parse_any(Parse parse) {
  try {
    parse();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_any([&] { check(heapsnap::parse_maps(text)); });
  parse_any([&] {
    const heapsnap::MappingsWithUsage parsed = heapsnap::parse_smaps(text);
    require(parsed.mappings.size() == parsed.usage.size());
    check(parsed.mappings);
  });
  return 0;
}
