// What lib/runtime reads of a process, as lines: runtime_probe [--texts] PID|CORE
//
//   member value                                   of the runtime
//   class count tracked bytes owned malloc name
//   type count unswept bytes owned malloc NAME PART    of those that the interpreter has built in
//   slots bytes pages used free unswept            of pages with slots of one size
//   area begin end in_malloc used free_in_page free_in_area
//   transient begin end in_malloc used free        Ruby's heap for buffers of young objects
//   context NUMBER KIND ...                        of each context: words with tabs between them
//
// A process is read in a copy, a core as it is.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "core/core_target.h"
#include "heap/discovery/malloc_discovery.h"
#include "heap/walk/heap_walker.h"
#include "platform/linux/freeze/frozen_process.h"
#include "references/loaded_modules.h"
#include "runtime/runtime_walk.h"

using namespace heapsnap;

namespace {

void print_slots(const RuntimeModel& model) {
  for (const Runtime& one : model.runtimes) {
    std::printf("collector %s\nunswept_slots %lu\nunswept_bytes %lu\nother_slots %lu\n",
                one.collector.c_str(), one.unswept_slots, one.unswept_bytes, one.other_slots);
  }
  for (const RuntimeType& row : model.types) {
    std::printf("type %lu %lu %lu %lu %lu %s %s\n", row.count, row.unswept, row.bytes,
                row.owned_bytes, row.malloc_bytes, row.name.c_str(), row.part.c_str());
  }
  for (const RuntimePages& row : model.pages) {
    std::printf("slots %lu %lu %lu %lu %lu\n", row.slot_bytes, row.pages, row.used_slots,
                row.free_slots, row.unswept_slots);
  }
  for (const RuntimeArea& area : model.areas) {
    if (area.is_transient) {
      std::printf("transient %lx %lx %d %lu %lu\n", area.range.begin.value(),
                  area.range.end.value(), area.is_in_malloc ? 1 : 0, area.used.bytes,
                  area.free_in_area.bytes);
      continue;
    }
    std::printf("area %lx %lx %d %lu %lu %lu\n", area.range.begin.value(), area.range.end.value(),
                area.is_in_malloc ? 1 : 0, area.used.bytes, area.free_in_page.bytes,
                area.free_in_area.bytes);
  }
}

void print_contexts(const RuntimeModel& model) {
  for (size_t i = 0; i < model.contexts.size(); ++i) {
    const RuntimeContext& one = model.contexts[i];
    std::printf("context %zu\t%s\t%d\t%u\t%lu\t%lu\t%lu\t%lu\t%s\t%lu\t%lu\t%lu\t%s\t%s\t%s\n", i,
                to_string(one.kind), one.parent, one.level, one.blocks, one.bytes, one.free_bytes,
                one.free_chunks, one.counts_chunks ? std::to_string(one.used_chunks).c_str() : "-",
                one.malloc_blocks, one.in_heaps.bytes + one.in_mappings.bytes,
                one.in_heaps.resident + one.in_mappings.resident, one.name.c_str(),
                one.problem.c_str(), one.ident.c_str());
  }
}

void print(const RuntimeModel& model) {
  for (const Runtime& one : model.runtimes) {
    std::printf("version %s\nwhy_not %s\n", one.version.c_str(), one.why_not.c_str());
    std::printf("interpreters %lu\nobjects %lu\nareas %lu\narea_bytes %lu\n", one.interpreters,
                one.objects, one.areas, one.area_bytes);
    std::printf("used %lu\nfree %lu\noverhead %lu\nfree_pages %lu\nalignment %lu\n", one.used_bytes,
                one.free_bytes, one.overhead_bytes, one.free_page_bytes, one.alignment_bytes);
    std::printf("damaged_pages %lu\nunread %lu\n", one.damaged_pages, one.unread_bytes);
    std::printf("contexts %lu\ndamaged_contexts %lu\n", one.contexts, one.damaged_contexts);
    std::printf("spare_contexts %lu\nspare_bytes %lu\n", one.spare_contexts, one.spare_bytes);
    std::printf("other_malloc_blocks %lu\nother_malloc_bytes %lu\n", one.other_malloc_blocks,
                one.other_malloc_bytes);
  }
  for (const RuntimeClass& row : model.classes) {
    std::printf("class %lu %lu %lu %lu %lu %s\n", row.count, row.tracked, row.bytes,
                row.owned_bytes, row.malloc_bytes, row.name.c_str());
  }
  print_slots(model);
  print_contexts(model);
}

std::unique_ptr<Target> open_target(const std::string& what) {
  if (what.find_first_not_of("0123456789") == std::string::npos) {
    FreezeOptions options;
    options.choice = FreezeChoice::kFork;
    return std::make_unique<FrozenProcess>(std::atoi(what.c_str()), options);
  }
  CoreOptions options;
  options.core_path = what;
  std::vector<std::string> notes;
  return open_core(options, notes);
}

}  // namespace

int main(int argc, char** argv) {
  RuntimeOptions options;
  options.keep_texts = argc == 3 && std::string(argv[1]) == "--texts";
  if (argc != (options.keep_texts ? 3 : 2)) return 2;
  try {
    const std::unique_ptr<Target> target = open_target(argv[argc - 1]);
    RuntimeModel model;
    for (const RuntimePlace& place : find_runtimes(*target, LoadedModules(*target))) {
      const std::unique_ptr<RuntimeWalk> walk = place.begin(*target, options);
      walk_heaps(*target, locate_mallocs(*target, prepare_discovery(*target, DebugFileSearch())),
                 *walk, WalkOptions{});
      walk->take(model);
    }
    print(model);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
  return 0;
}
