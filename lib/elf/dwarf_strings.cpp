#include "elf/dwarf_strings.h"

#include <gelf.h>
#include <libelf.h>

#include <string_view>

namespace heapsnap {

namespace {

// ".debug_str", ".debug_line_str.dwo", ".zdebug_str"; not ".debug_str_offsets".
bool is_of_strings(std::string_view name) {
  if (name.ends_with(".dwo")) name.remove_suffix(4);
  return name.ends_with("debug_str") || name.ends_with("debug_line_str");
}

}  // namespace

bool has_terminated_strings(Elf* elf) {
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) return false;
    const char* const name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || header.sh_type == SHT_NOBITS || !is_of_strings(name)) continue;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || data->d_size == 0) continue;
    if (static_cast<const char*>(data->d_buf)[data->d_size - 1] != '\0') return false;
  }
  return true;
}

}  // namespace heapsnap
