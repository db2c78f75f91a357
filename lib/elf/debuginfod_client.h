// libdebuginfod, loaded only when it is asked for: linked in, it would bring libcurl and some
// thirty more libraries into every run of the command.
#pragma once

#include <optional>
#include <string>

#include "base/mapped_file.h"

namespace heapsnap {

// The debug file of that build-id (lower-case hex) from the servers in $DEBUGINFOD_URLS, which
// libdebuginfod also puts into its cache. May take as long as $DEBUGINFOD_TIMEOUT says. Gives
// nothing when no server has it or the library is not installed.
std::optional<MappedFile> ask_debuginfod(const std::string& build_id);

// Why no server is asked at all, as a clause; empty: they are asked.
std::string why_debuginfod_is_not_asked();

}  // namespace heapsnap
