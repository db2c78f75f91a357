#include "snapshot/metadata.h"

namespace heapsnap {

std::string target_name(const SnapshotMetadata& metadata) {
  if (metadata.collection) {
    const std::string& place = metadata.collection->place;  // HOST/NAME/FILE
    const size_t end = place.rfind('/');
    const size_t begin = end == std::string::npos || end == 0 ? end : place.rfind('/', end - 1);
    if (begin != std::string::npos && begin + 1 < end)
      return place.substr(begin + 1, end - begin - 1);
  }
  return metadata.process.comm;
}

}  // namespace heapsnap
