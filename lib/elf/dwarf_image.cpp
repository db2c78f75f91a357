#include "elf/dwarf_image.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <bit>
#include <string>
#include <utility>

#include "base/byte_reader.h"
#include "base/error.h"
#include "elf/dwarf_copy.h"
#include "elf/dwarf_strings.h"
#include "elf/elf_headers.h"
#include "elf/elf_notes.h"
#include "elf/unpacked_size.h"

namespace heapsnap {

namespace {

// Of a type that has pointers in it or is one, or of what brings entries of another unit.
bool is_type_tag(uint64_t tag) {
  switch (tag) {
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
    case DW_TAG_imported_unit:
    case DW_TAG_skeleton_unit: return true;
    default: return false;
  }
}

}  // namespace

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

bool may_describe_types(const ElfImage& file) {
  if (!has_debug_information(file)) return false;
  const ElfSection* const section = file.section(".debug_abbrev");
  // What is unpacked or read from elsewhere may be anything.
  if (section == nullptr || (section->flags & SHF_COMPRESSED) != 0 ||
      file.section(".gnu_debugaltlink") != nullptr) {
    return true;
  }
  try {
    ByteReader in(clipped(file.file_bytes(), section->file_offset, section->size), ".debug_abbrev");
    while (!in.at_end()) {
      if (in.read_varint() == 0) continue;  // the end of a table
      if (is_type_tag(in.read_varint())) return true;
      in.read<uint8_t>();  // DW_CHILDREN_*
      for (uint64_t name = 1, form = 1; name != 0 || form != 0;) {
        name = in.read_varint();
        form = in.read_varint();
        if (form == DW_FORM_implicit_const) in.read_varint();
      }
    }
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace heapsnap
