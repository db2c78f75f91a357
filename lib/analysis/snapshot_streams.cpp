#include "analysis/snapshot_streams.h"

namespace heapsnap {

SnapshotStreams streams_of(const SnapshotReader& reader) {
  SnapshotStreams streams;
  streams.metadata = &reader.metadata();
  streams.read_chunks = [&reader](ChunkSink& sink) { reader.read_chunks(sink); };
  streams.read_pages = [&reader](const ReceivePages& receive) { reader.read_pages(receive); };
  if (reader.metadata().references && reader.metadata().references->slots != 0) {
    streams.read_slots = [&reader](const ReceiveSlots& receive) { reader.read_slots(receive); };
  }
  streams.read_contents = [&reader](const ReceiveContents& receive) {
    reader.read_contents(receive);
  };
  return streams;
}

}  // namespace heapsnap
