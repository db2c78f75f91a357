// The objects of Ruby in the lines of ObjectSpace.dump_all, for heapy, harb and sheap.
//
//   {"type":"ROOT", "root":"Cache::STORE", "references":["0x7f0a0f3b1c58"]}
//   {"address":"0x7f0a0f3b1c58", "type":"HASH", "class":"0x7f0a0f3b8ed8", "slot_size":40,
//    "references":["0x7f0a0f3b1b90"], "memsize":232}                          all of it in one line
//
// Members that a snapshot has nothing of are left out: values, lengths, flags, where an object was
// allocated. Roots are called as in other reports. "memsize" counts what malloc granted.
#pragma once

#include "analysis/ruby_objects.h"
#include "report/writer.h"
#include "snapshot/metadata.h"

namespace heapsnap {

void export_ruby_dump(const SnapshotMetadata& metadata, RubyObjects& objects, Writer& out);

}  // namespace heapsnap
