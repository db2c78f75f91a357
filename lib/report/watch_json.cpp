#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/watch_report.h"

namespace heapsnap {

void print_watch_json(Writer& out, int pid, const std::string& comm, const WatchRow& row) {
  const WatchLook& look = row.look;
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "watch");
  json.member("version", 1);
  json.member("time", time_text(look.at_ns, 3));
  json.member("pid", pid);
  json.member("comm", comm);
  json.member("rss", look.rss);
  json.member("anonymous", look.anonymous);
  json.member("file", look.file);
  json.member("shmem", look.shmem);
  json.member("swap", look.swap);
  json.member("threads", look.threads);
  json.member("growth", row.growth);
  if (look.malloc) {
    json.member("arenas", look.malloc->arenas);
    json.member("arena_bytes", look.malloc->arena_bytes);
    json.member("mmapped_chunks", look.malloc->mmapped_chunks);
    json.member("mmapped_bytes", look.malloc->mmapped_bytes);
  }
  if (look.tracker) {
    json.member("live_bytes", look.tracker->growth());
    json.member("allocations", look.tracker->allocations);
    json.member("frees", look.tracker->frees);
    json.member("allocated_bytes", look.tracker->allocated_bytes);
    json.member("freed_bytes", look.tracker->freed_bytes);
  }
  if (row.rates) {
    json.member("seconds", row.rates->seconds);
    json.member("rss_per_s", row.rates->rss);
    if (look.tracker) {
      json.member("live_per_s", row.rates->live);
      json.member("churn_per_s", row.rates->churn);
      json.member("allocations_per_s", row.rates->allocations);
    }
  }
  if (row.snapshot) {
    json.member("why", row.snapshot->why);
    json.member("snapshot", row.snapshot->path);
    json.member("snapshot_bytes", row.snapshot->bytes);
    json.member("pause_ns", row.snapshot->pause_ns);
  }
  if (!row.notes.empty()) {
    json.key("notes");
    json.begin_array();
    for (const std::string& note : row.notes) json.value(note);
    json.end_array();
  }
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
