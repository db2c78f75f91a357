// Which module of a process is a PostgreSQL server, and of which version.
//
// The server exports its functions and variables for extensions, TopMemoryContext among them, also
// where it has been stripped. Its version is only in what version() prints, a constant:
// "PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc ..., 64-bit".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "references/loaded_modules.h"
#include "runtime/postgres/postgres_layout.h"
#include "target/target.h"

namespace heapsnap {

struct PostgresPlace {
  std::string module;   // path
  std::string version;  // "15.20"; empty: not known
  Address top;          // the variable TopMemoryContext
  std::vector<AddressRange> code;
  std::vector<AddressRange> data;          // segments that hold no code, constants among them
  const PostgresLayout* layout = nullptr;  // none: see why_not
  std::string why_not;                     // one clause
};

// Modules that define TopMemoryContext: mostly none. Reads files, and nothing of the target but its
// maps.
std::vector<PostgresPlace> find_postgres_servers(Target& target, const LoadedModules& modules);

}  // namespace heapsnap
