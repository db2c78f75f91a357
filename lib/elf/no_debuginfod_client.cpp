#include "elf/debuginfod_client.h"

namespace heapsnap {

std::optional<MappedFile> ask_debuginfod(const std::string& /*build_id*/) {
  return std::nullopt;
}

std::string why_debuginfod_is_not_asked() {
  return "this heapsnap was built without libdebuginfod";
}

}  // namespace heapsnap
