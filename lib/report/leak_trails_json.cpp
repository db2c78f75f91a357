#include "report/reference_labels.h"
#include "report/reference_report.h"

namespace heapsnap {

void print_json_leak_trails(Writer& out, const ReferenceReportInput& input,
                            const LeakCensus& census,
                            const std::vector<std::vector<LeakStep>>& trails) {
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "leak-trails");
  json.member("version", 1);
  json.key("trails");
  json.begin_array();
  for (const std::vector<LeakStep>& trail : trails) {
    json.begin_array();
    for (const LeakStep& step : trail) {
      const LeakedBlock& block = census.blocks[step.block];
      json.begin_object();
      json.member("addr", block.address);
      json.member("bytes", block.bytes);
      write_json_type(json, input, block.type);
      json.member("from", step.from);
      json.member("held_at", step.held_at);
      json.member("interior", step.interior);
      json.end_object();
    }
    json.end_array();
  }
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
