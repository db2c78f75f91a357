// What owners are called on a line of a screen, in the room that there is:
//
//   g_cache in server
//   t_buffer in server, thread-local of 12 threads (worker)
//   64 threads (worker-*), in handle(Request&) in server
//   g_index, g_names and 3 more variables, together
//
// What says least goes first: the module, then the arguments of templates, then the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/owner_tree.h"
#include "references/root.h"
#include "report/json_writer.h"
#include "report/reference_report.h"
#include "snapshot/metadata.h"

namespace heapsnap {

// The blocks of a node, of a kind of them: "Session", "48 bytes", "32 to 96 bytes".
std::string kind_of_blocks(const ReferenceReportInput& input, const OwnerNode& node);
// ", held at +0x18", ", in an array", or "" where that is not known, or somewhere in an object.
std::string where_held(const ReferenceReportInput& input, const OwnerNode& node,
                       const OwnerNode& holder);

class OwnerLabels {
 public:
  // All as in OwnerTree or OwnerSums, which must outlive it.
  OwnerLabels(const SnapshotMetadata& metadata, const std::vector<RootPlace>& places,
              const std::vector<uint32_t>& threads,
              const std::vector<std::vector<uint32_t>>& groups)
      : metadata_(metadata), places_(places), threads_(threads), groups_(groups) {}

  // Of an index into the places.
  std::string of_place(uint32_t place, size_t width) const;
  // Of the roots of a group.
  std::string of_several(uint32_t group, size_t width) const;
  // Their names, of a few; "" where of_several() has them all.
  std::string names_of_several(uint32_t group, size_t width) const;

  // The members of a root; of a group "kind", "roots" and "root_count".
  void write_json_place(JsonWriter& json, uint32_t place) const;
  void write_json_several(JsonWriter& json, uint32_t group) const;

 private:
  uint32_t threads_of(uint32_t place) const;
  // With so many of a group by name; and what such a text ends in.
  std::string several_of(const std::vector<uint32_t>& group, size_t named) const;
  std::string others_of_several(const std::vector<uint32_t>& group, size_t named) const;

  const SnapshotMetadata& metadata_;
  const std::vector<RootPlace>& places_;
  const std::vector<uint32_t>& threads_;
  const std::vector<std::vector<uint32_t>>& groups_;
};

}  // namespace heapsnap
