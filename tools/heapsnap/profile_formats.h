// The exports that are about stacks of a kind (call stacks, owners), about references, and about
// objects of a language runtime.
#pragma once

#include <string>

#include "report/writer.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

struct ProfileRequest {
  std::string path;    // of the snapshot, for messages
  std::string format;  // is_profile_format()
  std::string by;      // "stacks", "owners", or "": stacks where the process was tracked
};

bool is_profile_format(const std::string& format);

// Throws Error{kUnsupported}, with how to take a snapshot that has it, where it lacks what is asked
// for; before anything is written, as for a damaged snapshot.
void write_profile(const SnapshotReader& snapshot, const ProfileRequest& request, Writer& out);
// "ruby-dump-all", "heap_dump"
bool is_ruby_format(const std::string& format);
void write_ruby_objects(const SnapshotReader& snapshot, const std::string& path,
                        const std::string& format, Writer& out);
void write_heapsnapshot(const SnapshotReader& snapshot, const std::string& path, Writer& out);

}  // namespace heapsnap
