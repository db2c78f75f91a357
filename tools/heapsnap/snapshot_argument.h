// A snapshot or a process in one place of the command line: `heapsnap stacks SNAPSHOT|PID|NAME`.
//
// The word alone decides wherever it can; files are looked at for a name only:
//
//   4242, container:ID, pod:UID       a process
//   dir/web, ./web, web.hsnap         a file: it has a '/' or ends in ".hsnap"
//   web                               the snapshot of that name in the current directory, if there
//                                     is one; any other file of that name, such as the program, is
//                                     not looked at; else the process of that name
//
// What the word could mean as well is said in a note.
#pragma once

#include <string>
#include <vector>

#include "snapshot/snapshot_reader.h"

namespace heapsnap {

struct SnapshotArgument {
  bool is_file = false;
  std::string path;                // of the file
  int pid = 0;                     // else of the process
  std::vector<std::string> notes;  // for people
};

// `command`: "heapsnap stacks", for the notes. Throws as resolve_target() does for what is no file.
SnapshotArgument resolve_snapshot(const std::string& argument, const std::string& command);

// For commands that read snapshots only. `command`: "view". Throws Error{kUsage}, with how to take
// one, where the word can only mean a process, and as SnapshotReader::open() does.
SnapshotReader open_snapshot(const std::string& argument, const std::string& command);

}  // namespace heapsnap
