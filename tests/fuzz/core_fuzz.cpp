// A core of any bytes: its notes, its regions and reads around their edges. It is refused with
// Error{kBadInput}, or its regions are disjoint and in order and no read goes wrong.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/core_memory.h"
#include "core/core_notes.h"
#include "core/core_regions.h"
#include "elf/elf_headers.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_notes(const CoreNotes& notes) {
  for (const Thread& thread : notes.threads) require(thread.registers.has_value());
  for (const CoreNotes::File& file : notes.files) {
    require(!file.range.is_empty() && !file.path.empty());
  }
  require(notes.process.page_size >= 4096);
  require((notes.process.page_size & (notes.process.page_size - 1)) == 0);
}

void check_regions(const std::vector<CoreRegion>& regions) {
  for (size_t i = 0; i < regions.size(); ++i) {
    const CoreRegion& region = regions[i];
    require(!region.range.is_empty());
    require(region.dumped.size() <= region.claimed);
    require(region.claimed <= region.range.size());
    require(i == 0 || regions[i - 1].range.end <= region.range.begin);
  }
}

void check_reads(const std::vector<CoreRegion>& regions) {
  CoreMemory memory(regions);
  std::array<std::byte, 64> out;
  for (const CoreRegion& region : regions) {
    const size_t count = memory.read(region.range.begin, out);
    require(region.dumped.empty() ? true : count > 0);
    for (const uint64_t back : {1, 8, 63}) {
      require(memory.read(region.range.end - back, out) <= out.size());
      require(memory.read(region.range.begin - back, out) <= out.size());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto core = ElfHeaders::parse(bytes, "fuzz");
    const CoreNotes notes = read_core_notes(core);
    check_notes(notes);
    for (const bool with_image : {false, true}) {
      std::vector<CoreImage> images;
      if (with_image && !core.segments.empty()) {
        images.push_back({Address(core.segments.back().address + 1), bytes});
      }
      const auto regions = core_regions(images, &core, notes.files);
      check_regions(regions);
      check_reads(regions);
    }
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
  return 0;
}
