#include "tools/heapsnap/region_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "report/number_text.h"
#include "tools/heapsnap/typed_address.h"

namespace heapsnap {

namespace {

constexpr std::string_view kArenaWord = "arena ";

[[noreturn]] void fail(const std::string& text, const std::string& why, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, "--region '" + text + "'", why, remedy);
}

std::optional<AddressRange> parse_range(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<Address> begin = parse_address(text.substr(0, dash));
  const std::optional<Address> end = parse_address(text.substr(dash + 1));
  if (!begin || !end) return std::nullopt;
  return AddressRange{*begin, *end};
}

std::vector<HeapRegion> regions_of_arena(const SnapshotMetadata& metadata,
                                         const std::vector<HeapRegion>& all,
                                         const std::string& text) {
  const std::string_view digits = std::string_view(text).substr(kArenaWord.size());
  int32_t arena = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), arena);
  const size_t arenas = metadata.heap.arenas.size();
  if (error != std::errc() || end != digits.data() + digits.size() || arena < 0 ||
      static_cast<size_t>(arena) >= arenas) {
    fail(text,
         arenas == 1 ? "the snapshot has arena 0 only"
                     : fmt::format("the snapshot has arenas 0 to {}", arenas - 1),
         "give the number of one of them");
  }
  std::vector<HeapRegion> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](const HeapRegion& region) { return region.arena == arena; });
  return chosen;
}

std::vector<HeapRegion> regions_of_mappings(const SnapshotMetadata& metadata,
                                            const std::vector<HeapRegion>& all,
                                            const std::string& text) {
  std::vector<AddressRange> ranges;
  for (const Mapping& mapping : metadata.mappings) {
    if (mapping.path == text) ranges.push_back(mapping.range);
  }
  if (ranges.empty()) {
    fail(text, "no mapping has that name",
         "give 'arena N', mmapped, an address, a range of addresses, or a mapping such as [heap]");
  }
  return regions_within(all, ranges);
}

}  // namespace

ChosenRegions choose_regions(const SnapshotMetadata& metadata, std::vector<HeapRegion> all,
                             const std::string& text) {
  if (text.empty()) return {std::move(all), {}};
  ChosenRegions chosen;
  chosen.name = text;
  if (text == "main arena") return choose_regions(metadata, std::move(all), "arena 0");
  if (text.starts_with(kArenaWord)) {
    chosen.regions = regions_of_arena(metadata, all, text);
    if (metadata.heap.arenas[0].is_main && text == "arena 0") chosen.name = "main arena";
  } else if (text == "mmapped") {
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen.regions),
                 [](const HeapRegion& region) { return region.is_mmapped(); });
    chosen.name = "mmapped chunks";
  } else if (const std::optional<AddressRange> range = parse_range(text)) {
    chosen.regions = regions_within(all, {{*range}});
    chosen.name = address_text(range->begin) + " to " + address_text(range->end);
  } else if (const std::optional<Address> address = parse_address(text)) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen.regions),
                 [&](const HeapRegion& region) { return region.range.contains(*address); });
    chosen.name = "around " + address_text(*address);
  } else {
    chosen.regions = regions_of_mappings(metadata, all, text);
  }
  if (chosen.regions.empty()) {
    fail(text, "malloc has no memory there", "without --region, the picture shows the whole heap");
  }
  return chosen;
}

}  // namespace heapsnap
