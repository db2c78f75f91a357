#include "elf/dwarf_image.h"

#include <elfutils/libdw.h>
#include <libelf.h>

#include <bit>
#include <string>
#include <utility>

#include "base/error.h"
#include "elf/dwarf_copy.h"
#include "elf/dwarf_strings.h"
#include "elf/elf_headers.h"
#include "elf/elf_notes.h"
#include "elf/unpacked_size.h"

namespace heapsnap {

struct DwarfImage::State {
  struct End {
    void operator()(Elf* elf) const { elf_end(elf); }
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };
  // In this order: each is used by the one after it until that is closed.
  DwarfCopy copy;
  std::unique_ptr<Elf, End> elf;
  std::unique_ptr<Dwarf, End> dwarf;
};

DwarfImage::DwarfImage(std::unique_ptr<State> state) : state_(std::move(state)) {}
DwarfImage::~DwarfImage() = default;

std::unique_ptr<DwarfImage> DwarfImage::open(const ElfImage& file,
                                             std::span<const std::string_view> sections,
                                             std::optional<uint64_t> address) {
  const auto bytes = file.file_bytes();
  if (bytes.size() > kMostUnpackedBytes || unpacked_size(file) > kMostUnpackedBytes) {
    return nullptr;
  }
  auto state = std::make_unique<State>();
  state->copy =
      address ? copy_unit_for_dwarf(file, sections, *address) : copy_for_dwarf(file, sections);
  if (state->copy.bytes == nullptr || elf_version(EV_CURRENT) == EV_NONE) return nullptr;
  state->elf.reset(elf_memory(reinterpret_cast<char*>(state->copy.bytes.get()), state->copy.size));
  if (!state->elf) return nullptr;
  state->dwarf.reset(dwarf_begin_elf(state->elf.get(), DWARF_C_READ, nullptr));
  if (!state->dwarf || !has_terminated_strings(state->elf.get())) return nullptr;
  return std::unique_ptr<DwarfImage>(new DwarfImage(std::move(state)));
}

// libdw itself would look by build-id only when the image comes from memory.
std::unique_ptr<DwarfImage> DwarfImage::open_alternate(const ElfImage& debug_file,
                                                       std::span<const std::string_view> sections) {
  const ElfSection* section = debug_file.section(".gnu_debugaltlink");
  if (section == nullptr) return nullptr;
  const auto bytes = clipped(debug_file.file_bytes(), section->file_offset, section->size);
  std::string path(text_at(bytes, 0, bytes.size()));
  if (path.empty()) return nullptr;
  const auto id = bytes.subspan(path.size() + 1);
  const std::string& from = debug_file.name();
  if (!path.starts_with('/')) path = from.substr(0, from.rfind('/') + 1) + path;
  try {
    const auto alternate = ElfImage::from_file(MappedFile::open(path), path);
    if (alternate.build_id() != hex_text(id)) return nullptr;
    return open(alternate, sections);
  } catch (const Error&) {
    return nullptr;
  }
}

void DwarfImage::set_alternate(DwarfImage& alternate) {
  dwarf_setalt(state_->dwarf.get(), alternate.state_->dwarf.get());
}

void DwarfImage::each_unit(const std::function<bool(const DwarfEntry&)>& visit) const {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (dwarf_get_units(state_->dwarf.get(), unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
    if (!visit(DwarfEntry::from_parts(std::bit_cast<DwarfEntry::Parts>(die)))) return;
  }
}

bool has_debug_information(const ElfImage& file) {
  const auto is_there = [&file](const char* name) {
    const ElfSection* const section = file.section(name);
    constexpr uint32_t kNoBytes = 8;  // SHT_NOBITS
    return section != nullptr && section->type != kNoBytes;
  };
  return is_there(".debug_info") || is_there(".zdebug_info");
}

}  // namespace heapsnap
