#include "analysis/reference_streams.h"

namespace heapsnap {

ReferenceStreams references_of(const SnapshotReader& reader) {
  ReferenceStreams streams;
  streams.places = reader.read_root_places();
  streams.types = reader.read_type_names();
  if (streams.types.empty()) streams.types.emplace_back();
  streams.slack_words = reader.read_slack_words();
  streams.unused_words = reader.read_unused_words();
  streams.containers = reader.read_containers();
  streams.read_references = [&reader](ReferenceSink& sink) { reader.read_references(sink); };
  streams.read_roots =
      [&reader, places = streams.places.size()](const std::function<void(const Root&)>& receive) {
        reader.read_roots(places, receive);
      };
  streams.read_block_types =
      [&reader, types = streams.types.size()](const ReferenceStreams::ReceiveTypes& receive) {
        reader.read_block_types(types, receive);
      };
  return streams;
}

ReferenceGraph read_graph(const ReferenceStreams& references) {
  ReferenceGraph graph;
  ReferenceGraphSink sink(graph);
  references.read_references(sink);
  graph.finish();
  return graph;
}

}  // namespace heapsnap
