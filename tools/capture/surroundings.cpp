#include "tools/capture/surroundings.h"

#include <string_view>

#include "base/error.h"
#include "elf/elf_headers.h"
#include "elf/elf_notes.h"
#include "platform/linux/proc/memory_margin.h"

namespace heapsnap {

std::string program_build_id(Target& target) {
  constexpr std::string_view kDeleted = " (deleted)";  // /proc/PID/exe says it, a mapping does not
  std::string program = target.process().exe;
  if (program.ends_with(kDeleted)) program.erase(program.size() - kDeleted.size());
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (mapping.path != program || mapping.is_anonymous()) continue;
    try {
      const auto file = target.open_file(mapping);
      return file ? find_build_id(ElfHeaders::parse(file->bytes(), program)) : std::string();
    } catch (const Error&) {
      return {};
    }
  }
  return {};
}

std::optional<MemoryLeft> find_memory_left(int pid) {
  const MemoryMargin::Room room = MemoryMargin(pid).room(UINT64_MAX);
  if (room.limit.empty()) return std::nullopt;
  return MemoryLeft{room.bytes, room.limit};
}

}  // namespace heapsnap
