// The sections on the allocator and how it was read: caches, accounting, damage, discovery, freeze.
#include <fmt/format.h>

#include "report/number_text.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

constexpr size_t kMaxDamageLines = 50;

std::string thread_name(const SnapshotMetadata& metadata, int tid) {
  for (const Thread& thread : metadata.threads) {
    if (thread.tid == tid) return printable(thread.name);
  }
  return {};
}

std::string verdict(uint64_t walked, uint64_t counted) {
  if (walked == counted) return "agree";
  return walked < counted ? size_text(counted - walked) + " not walked"
                          : size_text(walked - counted) + " more walked";
}

void print_instance(TextPage& page, const MallocInstance& instance) {
  page.field("module", printable(instance.module));
  if (!instance.build_id.empty()) page.field("build id", printable(instance.build_id));
  page.field("version", version_text(instance.version));
  page.field("found by", to_string(instance.strategy));
  page.field("layout", printable(instance.layout_source));
  page.field("main_arena", address_text(instance.main_arena));
  page.field("mp_",
             instance.malloc_par.is_null() ? "not found" : address_text(instance.malloc_par));
  for (const std::string& note : instance.notes) page.field("note", printable(note));
}

}  // namespace

void print_thread_caches(TextPage& page) {
  const HeapModel& heap = page.input.metadata.heap;
  if (heap.thread_caches.empty()) return;
  page.heading("Thread caches");
  TextTable table;
  table.add_column("thread", Align::kRight);
  table.add_column("name", Align::kLeft);
  table.add_column("arena", Align::kRight);
  table.add_column("chunks", Align::kRight);
  table.add_column("bytes", Align::kRight);
  for (const ThreadCache& cache : heap.thread_caches) {
    table.add_row({fmt::format("{}", cache.tid), thread_name(page.input.metadata, cache.tid),
                   cache.arena < 0 ? "none" : fmt::format("{}", cache.arena),
                   count_text(cache.chunks), size_text(cache.bytes)});
  }
  page.table(table);
}

void print_accounting(TextPage& page) {
  const HeapModel& heap = page.input.metadata.heap;
  if (heap.instances.empty()) return;
  page.heading("Walked chunks, compared with malloc's own counters");
  TextTable table;
  table.add_column("", Align::kLeft);
  table.add_column("walked", Align::kRight);
  table.add_column("counted", Align::kRight);
  table.add_column("", Align::kLeft);
  for (size_t i = 0; i < heap.arenas.size(); ++i) {
    const Arena& arena = heap.arenas[i];
    table.add_row({fmt::format("arena {}{}{}", i, arena.is_noncontiguous ? ", not contiguous" : "",
                               arena.was_locked ? ", locked" : ""),
                   size_text(arena.walked), size_text(arena.system_mem),
                   verdict(arena.walked, arena.system_mem)});
  }
  for (size_t i = 0; i < heap.instances.size(); ++i) {
    const MallocInstance& instance = heap.instances[i];
    if (instance.malloc_par.is_null()) continue;
    const Tally& mmapped = page.input.summary.mmapped[i];
    table.add_row({"mmapped chunks", count_text(mmapped.count), count_text(instance.n_mmaps),
                   mmapped.count == instance.n_mmaps ? "agree" : "differ"});
    table.add_row({"mmapped bytes", size_text(mmapped.bytes), size_text(instance.mmapped_mem),
                   verdict(mmapped.bytes, instance.mmapped_mem)});
  }
  page.table(table);
}

void print_damage(TextPage& page) {
  const auto& corruptions = page.input.metadata.heap.corruptions;
  if (corruptions.empty()) return;
  page.heading("Damage");
  if (page.input.metadata.freeze.method == FreezeMethod::kNone) {
    page.sentence("The process kept running while it was read: a sound heap looks like this, too.");
  }
  for (size_t i = 0; i < corruptions.size() && i < kMaxDamageLines; ++i) {
    const Corruption& corruption = corruptions[i];
    const std::string arena =
        corruption.arena < 0 ? "" : fmt::format("arena {}: ", corruption.arena);
    std::string front = "  " + address_text(corruption.where) + "  ";
    for (const std::string& line :
         wrapped(arena + printable(corruption.what), page.width - front.size())) {
      page.out.write(front + page.ink.red(line) + "\n");
      front.assign(front.size(), ' ');
    }
  }
  if (corruptions.size() > kMaxDamageLines) {
    page.sentence(count_text(corruptions.size() - kMaxDamageLines) +
                  " more; the JSON report has them all.");
  }
}

void print_discovery(TextPage& page) {
  const std::vector<MallocInstance>& instances = page.input.metadata.heap.instances;
  for (const MallocInstance& instance : instances) {
    page.heading("How malloc was found");
    print_instance(page, instance);
  }
}

void print_freeze(TextPage& page) {
  const SnapshotMetadata& metadata = page.input.metadata;
  const FreezeRecord& freeze = metadata.freeze;
  page.heading("How the process was read");
  page.field("method", to_string(freeze.method));
  if (!freeze.why.empty()) page.field("why", printable(freeze.why));
  if (freeze.method == FreezeMethod::kFork || freeze.method == FreezeMethod::kStop) {
    page.field("pause", duration_text(freeze.pause_ns));
    if (freeze.reap_pause_ns != 0) page.field("reaping", duration_text(freeze.reap_pause_ns));
    page.field("threads", count_text(freeze.threads));
    page.field("in malloc", fmt::format("{}, stepped out in {}",
                                        count_text(freeze.threads_in_malloc, "thread", "threads"),
                                        count_text(freeze.steps, "step", "steps")));
    page.field("syscalls", count_text(freeze.syscalls_restarted) + " restarted");
  }
  for (const std::string& note : freeze.notes) page.field("note", printable(note));
  if (!metadata.writer.empty()) page.field("written by", printable(metadata.writer));
}

}  // namespace heapsnap
