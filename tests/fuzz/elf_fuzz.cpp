// An ELF file of any bytes: everything that an ElfImage offers, its code and its DWARF. It is
// refused with Error{kBadInput}, or nothing that it gives lies outside of the bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "elf/disassembler.h"
#include "elf/elf_image.h"
#include "elf/struct_layout.h"
#include "elf/unwind_entries.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_inside(std::span<const std::byte> whole, std::span<const std::byte> part) {
  require(part.empty() || (part.data() >= whole.data() &&
                           part.data() + part.size() <= whole.data() + whole.size()));
}

void check_symbols(const ElfImage& image) {
  for (const ElfSymbol& symbol : image.dynamic_symbols()) {
    require_inside(image.file_bytes(), std::as_bytes(std::span(symbol.name)));
    require_inside(image.file_bytes(), image.bytes_at(symbol.value, symbol.size));
  }
  // These may be views of the unpacked .gnu_debugdata instead.
  size_t letters = 0;
  for (const ElfSymbol& symbol : image.symbols()) {
    letters += static_cast<size_t>(std::count(symbol.name.begin(), symbol.name.end(), 'm'));
  }
  const ElfSymbol* found = image.find_symbol("main_arena");
  require(found == nullptr || (found->is_defined && letters + found->name.size() > 0));
}

void check_code(const ElfImage& image, const ElfSection& section) {
  const auto code = image.bytes_at(section.address, section.size);
  uint64_t address = section.address;
  for (const Instruction& instruction :
       disassemble(image.machine(), code, section.address, section.address + section.size)) {
    require(instruction.address == address && instruction.size > 0);
    address += instruction.size;
  }
  require(address - section.address <= code.size());
}

void check_unwind_entries(const ElfImage& image) {
  const UnwindEntries entries(image);
  for (const ElfSegment& segment : image.segments()) {
    const auto entry = entries.entry_at(segment.address);
    require(!entry || (entry->contains(segment.address) && image.segment_of(entry->begin)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto image = ElfImage::from_bytes(bytes, "fuzz");
    check_symbols(image);
    for (const ElfRelocation& relocation : image.relocations()) {
      require_inside(bytes, image.bytes_at(relocation.offset, 8));
    }
    require(image.build_id().size() <= 128);
    const auto link = image.debug_link();
    require(!link || !link->file_name.empty());
    require(image.tls_segment() == nullptr || !image.segments().empty());
    if (const ElfSection* text = image.section(".text")) check_code(image, *text);
    const auto layouts = read_struct_layouts(image, {"malloc_state", "malloc_par", "heap_info"});
    require(layouts.size() <= 3);
    check_unwind_entries(image);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
  return 0;
}
