// The call stacks of a tracked process, or owners, as a pprof profile: profile.proto of
// github.com/google/pprof, compressed with gzip, as `go tool pprof`, Pyroscope and speedscope read
// it.
//
//   sample    a call stack; values: alloc_objects, alloc_space, inuse_objects, inuse_space (the
//             names and order of Go's heap profiles)
//   location  a return address less one, so that it lies in the call; a line a function, the
//             inlined ones first
//   mapping   an ELF file that was loaded, the program first, with its build-id
//
// Functions without a name are called by module and address ("libfoo.so+0x1234"), since the file
// may not be where the profile is read. Texts are printable(), for `go tool pprof` prints them on a
// terminal.
#pragma once

#include "analysis/stack_census.h"
#include "report/stack_profile.h"
#include "report/writer.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

enum class PprofValues {
  kAll,    // four values, of each stack that allocated
  kInUse,  // inuse_objects and inuse_space alone, of each stack with blocks in use
};

// `metadata` has a tracker. Values of sampled stacks are estimates, rounded.
void export_pprof(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                  const StackCensus& census, PprofValues values, Writer& out);
// The owners of memory as stacks: inuse_objects and inuse_space, without mappings.
void export_pprof(const SnapshotMetadata& metadata, const StackProfile& stacks, Writer& out);

}  // namespace heapsnap
