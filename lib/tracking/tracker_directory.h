// Where the tracker's tables are in a process: its Directory (tracker/table_layout.h), found and
// checked.
//
// Ways to find it, in this order: the mapping that carries its name; the word at the symbol
// `heapsnap_tracker_directory` of the library; where the library's file cannot be opened (cores),
// any word of its data that leads there (kernels without CONFIG_ANON_VMA_NAME name no mappings, and
// then they merge); and the magic in the first page of any mapping that could hold it, in raw
// images in any page. A process that has not mapped the library is not read at all.
#pragma once

#include <optional>

#include "base/address.h"
#include "target/target.h"
#include "tracker/table_layout.h"

namespace heapsnap {

// The Directory at `at`; nothing when what is there is none. Throws Error{kUnsupported} when it is
// one of another version.
std::optional<tracker::Directory> read_directory(MemoryReader& memory, Address at);

// Its address; nothing when the process is not tracked (there is none, or its tracker is dormant
// and has dropped its tables). Throws Error{kUnsupported} when there is only one of another
// version.
std::optional<Address> find_tracker_directory(Target& target);

// The malloc that a tracker passes all calls on to because it is not the C library's; nothing where
// there is no such tracker.
std::optional<Address> malloc_behind_idle_tracker(Target& target);

// Whether recording runs or left something to read.
bool holds_records(const tracker::Directory& directory);

// Whether the tables are memory that the process shares (a memfd): a copy-on-write child does not
// hold them still.
bool is_shared_memory(const AddressSpace& space, Address directory);

}  // namespace heapsnap
