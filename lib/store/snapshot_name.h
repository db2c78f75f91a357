// Where snapshots lie in the store of `heapsnap collect`:
//
//   STORE/HOST/NAME/20260131T235959Z-4711.hsnap
//         |    |    `- when it was taken (UTC) and the pid
//         |    `- of the target, in the configuration
//         `- of the machine
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

struct SnapshotName {
  int64_t time_s = 0;  // since 1970, UTC; not before
  int pid = 0;
  auto operator<=>(const SnapshotName&) const = default;
};

// Whether a snapshot of this time was named by a clock that was ahead of `now_s`, by more than what
// a clock that is kept in time may be set back by.
bool is_in_future(int64_t time_s, int64_t now_s);

std::string to_text(const SnapshotName& name);
// Nothing for a text that to_text() does not give, a 30th of February among them.
std::optional<SnapshotName> parse_snapshot_name(std::string_view text);

// Whether a target may be called so: letters, digits, '.', '_' and '-', 64 at most, and no '.' in
// front.
bool is_target_name(std::string_view name);

// The folder of a machine: its name, with '_' for what is_target_name() does not allow.
std::string host_folder(std::string_view hostname);

}  // namespace heapsnap
