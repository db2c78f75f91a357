// Writes a snapshot, and what is in it as text: spec_sample SNAPSHOT TEXT
//
// The text is made from what the writer was given, not from what a reader of ours gives back;
// check_spec.py compares it with what a reader finds that knows only the specification.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <fstream>

#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::string hex(std::string_view text) {
  std::string out;
  for (const char byte : text) out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return out;
}

class Sample {
 public:
  Sample(const std::string& snapshot, const std::string& text)
      : writer_({snapshot, true}), text_(text) {}

  void run() {
    write_chunks();
    write_pages();
    write_contents();
    write_references();
    write_tables();
    if (!text_.flush()) throw std::runtime_error("cannot write the text");
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ << fmt::format(format, std::forward<Args>(args)...) << '\n';
  }

  void batch(const OwnedBatch& batch) {
    writer_.on_batch(batch.view());
    Address at = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      line("chunk {:x} {} {} {} {}", at.value(), batch.sizes[i], to_string(batch.states[i]),
           batch.arena, batch.segment);
      if (!batch.stacks.empty()) {
        line("stack {:x} {} {}", at.value(), batch.stacks[i], batch.slacks[i]);
      }
      at += batch.sizes[i];
    }
  }

  void write_chunks() {
    std::mt19937_64 random(7);
    // Long enough for a second block, then holes, large sizes, every state, and eights.
    OwnedBatch next = random_batch(random, Address(0x555500000000), 270000, 16, 300, 6);
    batch(next);
    next = random_batch(random, next.end() + 0x3000, 1000, 16, 20000, 2);
    for (size_t i = 0; i < next.states.size(); ++i) {
      next.states[i] = static_cast<ChunkState>(i % kChunkStateCount);
    }
    next.sizes[5] = uint64_t{70} << 30;
    batch(next);
    next = random_batch(random, Address(0x7f0000000000), 3000, 16, 100, 9);
    next.arena = 1;
    next.segment = 1;
    for (size_t i = 0; i < next.sizes.size(); i += 3) next.sizes[i] += 8;
    add_stacks(random, next);
    batch(next);
  }

  void write_pages() {
    const std::vector<PageState> states = {PageState::kResident, PageState::kResident,
                                           PageState::kSwapped, PageState::kAbsent,
                                           PageState::kResidentHuge};
    for (const uint64_t begin : {uint64_t{0x10000}, uint64_t{0x7f0000000000}}) {
      writer_.on_pages(Address(begin), 4096, states);
      line("pages {:x} {:x} 2", begin, begin + 0x2000);
      line("pages {:x} {:x} 3", begin + 0x2000, begin + 0x3000);
      line("pages {:x} {:x} 1", begin + 0x3000, begin + 0x4000);
      line("pages {:x} {:x} 5", begin + 0x4000, begin + 0x5000);
    }
  }

  void write_contents() {
    std::string bytes;
    for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7);
    for (const uint64_t begin : {uint64_t{0x2000}, uint64_t{0x7f0000000123}}) {
      writer_.on_contents(Address(begin), std::as_bytes(std::span(bytes)));
      for (size_t i = 0; i < bytes.size(); i += 16) {
        line("bytes {:x} {}", begin + i, hex(std::string_view(bytes).substr(i, 16)));
      }
    }
  }

  // One block with very many, and long ways between words.
  void write_references() {
    std::mt19937_64 random(3);
    constexpr BlockNumber kBlocks = 3000;
    for (BlockNumber block = 0; block < kBlocks; ++block) {
      const auto count = static_cast<uint32_t>(block == 1500 ? 300 : random() % 4);
      std::vector<uint32_t> offsets;
      std::vector<BlockNumber> targets;
      std::vector<uint8_t> interior;
      auto offset = static_cast<uint32_t>(random() % 3);
      for (uint32_t i = 0; i < count; ++i) {
        offsets.push_back(offset);
        targets.push_back(static_cast<BlockNumber>(random() % kBlocks));
        interior.push_back(static_cast<uint8_t>(random() % 2));
        line("reference {} {} {} {}", block, offset, targets.back(), interior.back());
        offset += random() % 100 == 0 ? 300 : 1 + static_cast<uint32_t>(random() % 3);
      }
      writer_.on_references({block, std::span(&count, 1), offsets, targets, interior});
      const auto type = static_cast<TypeNumber>(random() % 3);
      writer_.on_block_types(std::span(&type, 1));
      line("type {} {}", block, type);
    }
    const std::vector<BlockType> types = {
        {},
        {"Session", "/bin/a", TypeSource::kVtable, "", "", false, 0x8000000000000006},
        {"Thread", "", TypeSource::kRuntime, "DATA", "VM/thread", true}};
    writer_.on_type_names(types);
    for (const BlockType& type : types) {
      line("types name={} module={} source={} builtin={} part={} is_exact={} pointers={} bytes={}",
           hex(type.name), hex(type.module), static_cast<int>(type.source), hex(type.builtin),
           hex(type.part), type.is_exact ? 1 : 0, type.pointers, type.bytes);
    }
    const std::vector<SlackWords> slack = {{0, 3}, {1500, 250, 2, 40}, {2999, 0}};
    writer_.on_slack_words(slack);
    for (const SlackWords& one : slack) {
      line("slack_words block={} first={} used_from={} spare={}", one.block, one.first,
           one.used_from, one.spare);
    }
    const std::vector<UnusedWord> unused = {{7, 11}, {7, 15}, {2999, 3}};
    writer_.on_unused_words(unused);
    for (const UnusedWord& one : unused) {
      line("unused_words block={} word={}", one.block, one.word);
    }
    const std::vector<ContainerWords> containers = {{7, 5, {}, 3},
                                                    {kNoBlock, 0, Address(0x404040), 2}};
    writer_.on_containers(containers);
    for (const ContainerWords& one : containers) {
      line("containers block={} word={} at={} count={}", one.block, one.word, one.at.value(),
           one.count);
    }
    const std::vector<RootPlace> places = {
        {RootKind::kVariable, 0, "/bin/a", "g_cache", Address(0x4000), 8, 0x3000},
        {RootKind::kStack, 12, "", "main", Address(0x7ff000000000), 0, 0},
        {RootKind::kLocal, 12, "/bin/a", "x in f() at a.py:1", Address(0x7ff000001000), 8, 0}};
    for (uint32_t i = 0; i < 5; ++i) {
      const Root root{i % 3, uint64_t{16} * (5 - i), BlockNumber{2999} / (i + 1), i == 2};
      writer_.on_root(root);
      line("roots place={} offset={} target={} interior={:d}", root.place, root.offset, root.target,
           root.interior);
    }
    writer_.on_root_places(places);
    for (const RootPlace& place : places) {
      line("root_places kind={} tid={} module={} name={} begin={} size={} module_offset={}",
           static_cast<int>(place.kind), place.tid, hex(place.module), hex(place.name),
           place.begin.value(), place.size, place.module_offset);
    }
    references_ = {true, "", kBlocks, write_slots(), 1, 2, 3, 4, 5, 6};
    const ReferenceRecord& record = references_;
    const char* const why_not =
        "objects of a language runtime are among its blocks, which needs a newer heapsnap";
    line(
        "references is_complete=0 why_not={} is_complete_with_slots={:d} blocks={} slots={} "
        "references={} roots={} scanned_bytes={} bytes_in_swap={} bytes_unreadable={} scan_ns={}",
        hex(why_not), record.is_complete, record.blocks, record.slots, record.references,
        record.roots, record.scanned_bytes, record.bytes_in_swap, record.bytes_unreadable,
        record.scan_ns);
  }

  // Gives how many are used.
  BlockNumber write_slots() {
    constexpr uint32_t kSlots = 101;
    constexpr uint32_t kSlotBytes = 48;
    BlockNumber used = 0;
    for (uint64_t page = 0; page < 100'000; page += page < 3 ? 1 : 9973) {
      const Address begin(0x7d0000000030 + page * 0x4000);
      std::array<uint64_t, 2> bits = {0x8000000000000001 | page, (uint64_t{1} << 36) | page};
      bits[1] &= (uint64_t{1} << (kSlots - 64)) - 1;
      writer_.on_slots({begin, kSlotBytes, kSlots, bits});
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        if ((bits.at(slot / 64) >> (slot % 64) & 1) == 0) continue;
        ++used;
        line("slot {:x} {}", begin.value() + slot * kSlotBytes, kSlotBytes);
      }
    }
    return used;
  }

  void write_tables() {
    for (uint32_t i = 0; i < 3; ++i) {
      const MmappedChunk chunk{Address(0x7e0000000000 - i),
                               Address(0x7e0000000010),
                               0x41000,
                               0x40ff0,
                               0x40fe0,
                               ChunkState::kMmapped,
                               i % 2,
                               i,
                               static_cast<uint8_t>(i * 3)};
      writer_.on_mmapped(chunk);
      line(
          "mmapped_chunks mapping_begin={} chunk={} total={} size={} usable={} state=8 "
          "instance={} stack={} slack={}",
          chunk.mapping_begin.value(), chunk.chunk.value(), chunk.total, chunk.size, chunk.usable,
          chunk.instance, chunk.stack, chunk.slack);
    }
    SnapshotMetadata all = full_metadata(2, 2);
    all.tracker = full_tracker();
    all.references = references_;
    write_tracker_tables(*all.tracker);
    write_call_stack_tables();
    line("capture writer={} foreign_allocator={} foreign_answers_malloc={}", hex(all.writer),
         hex(all.heap.foreign_allocator), all.heap.foreign_answers_malloc ? 1 : 0);
    const Process& p = all.process;
    line(
        "process pid={} comm={} exe={} command_line={} hostname={} boot_id={} "
        "start_time_ticks={} uid={} machine={} page_size={} rss={} swap={} taken_at_ns={} "
        "fatal_signal={} build_id={}",
        p.pid, hex(p.comm), hex(p.exe), hex(p.command_line), hex(p.hostname), hex(p.boot_id),
        p.start_time_ticks, p.uid, static_cast<int>(p.machine), p.page_size, p.rss, p.swap,
        p.taken_at_ns, p.fatal_signal, hex(p.build_id));
    line("collection place={}", hex(all.collection->place));
    line("memory_left bytes={} limit={}", all.memory_left->bytes, hex(all.memory_left->limit));
    const FreezeRecord& f = all.freeze;
    line(
        "freeze method={} why={} pause_ns={} reap_pause_ns={} threads={} threads_in_malloc={} "
        "steps={} syscalls_restarted={}",
        static_cast<int>(f.method), hex(f.why), f.pause_ns, f.reap_pause_ns, f.threads,
        f.threads_in_malloc, f.steps, f.syscalls_restarted);
    for (const auto& note : f.notes) line("freeze_notes text={}", hex(note));
    for (const auto& note : all.notes) line("notes text={}", hex(note));
    for (const Thread& thread : all.threads) {
      const Registers r = thread.registers.value_or(Registers{});
      line(
          "threads tid={} name={} has_registers={} instruction_pointer={} stack_pointer={} "
          "thread_pointer={}",
          thread.tid, hex(thread.name), thread.registers.has_value() ? 1 : 0,
          r.instruction_pointer.value(), r.stack_pointer.value(), r.thread_pointer.value());
    }
    for (size_t i = 0; i < all.mappings.size(); ++i) {
      const Mapping& m = all.mappings[i];
      const MappingUsage& u = all.usage[i];
      line(
          "mappings begin={} end={} readable={:d} writable={:d} executable={:d} shared={:d} "
          "file_offset={} device_major={} device_minor={} inode={} path={} deleted={:d} "
          "has_usage=1 rss={} pss={} anonymous={} swap={} anon_huge={} hugetlb={}",
          m.range.begin.value(), m.range.end.value(), m.readable, m.writable, m.executable,
          m.shared, m.file_offset, m.device_major, m.device_minor, m.inode, hex(m.path), m.deleted,
          u.rss, u.pss, u.anonymous, u.swap, u.anon_huge, u.hugetlb);
    }
    write_heap_tables(all.heap);
    write_runtime_tables(all.runtimes);
    writer_.finish(all);
  }

  void write_tracker_tables(const TrackerRecord& t) {
    line(
        "tracker version={} directory={} recording={:d} pid={} generation={} start_count={} "
        "started_ns={} recorded_ns={} sample_bytes={} max_frames={} memory_limit={} "
        "memory_reserved={} memory_used={} limits={} dropped_slots={} dropped_stacks={} "
        "nested_events={} dropped_threads={} slow_unwinds={} full_unwinds={} limit_reached_ns={} "
        "unrecorded={}",
        t.version, t.directory.value(), t.recording, t.pid, t.generation, t.start_count,
        t.started_ns, t.recorded_ns, t.sample_bytes, t.max_frames, t.memory_limit,
        t.memory_reserved, t.memory_used, t.limits, t.dropped_slots, t.dropped_stacks,
        t.nested_events, t.dropped_threads, t.slow_unwinds, t.full_unwinds, t.limit_reached_ns,
        t.unrecorded);
    for (const auto& note : t.notes) line("tracker_notes text={}", hex(note));
    for (const TrackedModule& m : t.modules) {
      line("tracker_modules path={} build_id={} bias={} begin={} end={} loaded={} unloaded={}",
           hex(m.path), hex(m.build_id), m.bias, m.range.begin.value(), m.range.end.value(),
           m.loaded, m.unloaded);
    }
    for (const TrackedThread& thread : t.threads) {
      line(
          "tracker_threads tid={} name={} exited={:d} allocations={} frees={} allocated_bytes={} "
          "freed_bytes={} without_stack={} truncated={}",
          thread.tid, hex(thread.name), thread.exited, thread.allocations, thread.frees,
          thread.allocated_bytes, thread.freed_bytes, thread.without_stack, thread.truncated);
    }
    for (const AddressRange& range : t.memory) {
      line("tracker_memory begin={} end={}", range.begin.value(), range.end.value());
    }
  }

  void write_call_stack_tables() {
    const RecordedStacks all = full_call_stacks();
    writer_.on_call_stacks(all.stacks);
    writer_.on_symbols(all.symbols);
    for (const CallNode& node : all.stacks.nodes) {
      line("stack_nodes parent={} module={} return_address={}", node.parent, node.module,
           node.return_address.value());
    }
    for (const AllocationSite& site : all.stacks.sites) {
      line(
          "stacks node={} depth={} sample_bytes={} allocations={} frees={} allocated_bytes={} "
          "freed_bytes={}",
          site.node, site.depth, site.sample_bytes, site.allocations, site.frees,
          site.allocated_bytes, site.freed_bytes);
    }
    for (const std::string& text : all.symbols.strings()) line("strings text={}", hex(text));
    for (const SourceFrames::Place& place : all.symbols.places()) {
      for (const SourceFrame& frame : all.symbols.at(place.module, place.return_address)) {
        line(
            "code_frames module={} return_address={} function={} file={} line={} offset={} "
            "inlined={:d} language={:d}",
            place.module, place.return_address.value(), frame.function, frame.file, frame.line,
            frame.offset, frame.is_inlined, static_cast<int>(frame.language));
      }
    }
  }

  void write_runtime_tables(const RuntimeModel& model) {
    for (const Runtime& one : model.runtimes) {
      line(
          "runtimes kind={} version={} module={} place={} why_not={} interpreters={} objects={} "
          "areas={} area_bytes={} used_bytes={} free_bytes={} overhead_bytes={} "
          "free_page_bytes={} alignment_bytes={} other_slots={} other_slot_bytes={} "
          "damaged_pages={} unread_bytes={} collector={} unswept_slots={} unswept_bytes={} "
          "contexts={} damaged_contexts={} spare_contexts={} "
          "spare_bytes={} other_malloc_blocks={} other_malloc_bytes={}",
          static_cast<int>(one.kind), hex(one.version), hex(one.module), one.place.value(),
          hex(one.why_not), one.interpreters, one.objects, one.areas, one.area_bytes,
          one.used_bytes, one.free_bytes, one.overhead_bytes, one.free_page_bytes,
          one.alignment_bytes, one.other_slots, one.other_slot_bytes, one.damaged_pages,
          one.unread_bytes, hex(one.collector), one.unswept_slots, one.unswept_bytes, one.contexts,
          one.damaged_contexts, one.spare_contexts, one.spare_bytes, one.other_malloc_blocks,
          one.other_malloc_bytes);
    }
    for (const RuntimeClass& one : model.classes) {
      line(
          "runtime_classes runtime={} name={} count={} tracked={} bytes={} owned_bytes={} "
          "malloc_bytes={}",
          one.runtime, hex(one.name), one.count, one.tracked, one.bytes, one.owned_bytes,
          one.malloc_bytes);
    }
    for (const RuntimeType& one : model.types) {
      line(
          "runtime_types runtime={} name={} part={} count={} unswept={} bytes={} owned_bytes={} "
          "malloc_bytes={}",
          one.runtime, hex(one.name), hex(one.part), one.count, one.unswept, one.bytes,
          one.owned_bytes, one.malloc_bytes);
    }
    for (const RuntimePages& one : model.pages) {
      line(
          "runtime_pages runtime={} slot_bytes={} pages={} used_slots={} free_slots={} "
          "unswept_slots={}",
          one.runtime, one.slot_bytes, one.pages, one.used_slots, one.free_slots,
          one.unswept_slots);
    }
    for (const RuntimeArea& one : model.areas) {
      line(
          "runtime_areas runtime={} begin={} end={} used={} used_resident={} used_swapped={} "
          "free_in_page={} free_in_page_resident={} free_in_page_swapped={} free_in_area={} "
          "free_in_area_resident={} free_in_area_swapped={} is_in_malloc={} is_transient={}",
          one.runtime, one.range.begin.value(), one.range.end.value(), one.used.bytes,
          one.used.resident, one.used.swapped, one.free_in_page.bytes, one.free_in_page.resident,
          one.free_in_page.swapped, one.free_in_area.bytes, one.free_in_area.resident,
          one.free_in_area.swapped, one.is_in_malloc ? 1 : 0, one.is_transient ? 1 : 0);
    }
    for (const RuntimeContext& one : model.contexts) {
      line(
          "runtime_contexts runtime={} parent={} level={} kind={} at={} name={} ident={} blocks={} "
          "bytes={} free_bytes={} free_chunks={} used_chunks={} counts_chunks={} malloc_blocks={} "
          "in_heaps={} in_heaps_resident={} in_heaps_swapped={} in_mappings={} "
          "in_mappings_resident={} in_mappings_swapped={} problem={}",
          one.runtime, one.parent, one.level, static_cast<int>(one.kind), one.at.value(),
          hex(one.name), hex(one.ident), one.blocks, one.bytes, one.free_bytes, one.free_chunks,
          one.used_chunks, static_cast<int>(one.counts_chunks), one.malloc_blocks,
          one.in_heaps.bytes, one.in_heaps.resident, one.in_heaps.swapped, one.in_mappings.bytes,
          one.in_mappings.resident, one.in_mappings.swapped, hex(one.problem));
    }
  }

  void write_heap_tables(const HeapModel& heap) {
    for (const MallocInstance& one : heap.instances) {
      line(
          "malloc_instances module={} build_id={} version_major={} version_minor={} strategy={} "
          "layout_source={} main_arena={} malloc_par={} n_mmaps={} mmapped_mem={} "
          "tcache_count={}",
          hex(one.module), hex(one.build_id), one.version.major, one.version.minor,
          static_cast<int>(one.strategy), hex(one.layout_source), one.main_arena.value(),
          one.malloc_par.value(), one.n_mmaps, one.mmapped_mem, one.tcache_count);
    }
    for (size_t i = 0; i < heap.instances.size(); ++i) {
      for (const auto& note : heap.instances[i].notes) {
        line("malloc_instance_notes instance={} text={}", i, hex(note));
      }
    }
    for (const Arena& one : heap.arenas) {
      line(
          "arenas address={} instance={} is_main={:d} is_noncontiguous={:d} was_locked={:d} "
          "system_mem={} max_system_mem={} attached_threads={} top={} walked={}",
          one.address.value(), one.instance, one.is_main, one.is_noncontiguous, one.was_locked,
          one.system_mem, one.max_system_mem, one.attached_threads, one.top.value(), one.walked);
    }
    for (const HeapSegment& one : heap.segments) {
      line("segments begin={} end={} arena={} kind={} system_bytes={}", one.range.begin.value(),
           one.range.end.value(), one.arena, static_cast<int>(one.kind), one.system_bytes);
    }
    for (const ThreadCache& one : heap.thread_caches) {
      line("thread_caches tid={} tcache={} arena={} chunks={} bytes={}", one.tid,
           one.tcache.value(), one.arena, one.chunks, one.bytes);
    }
    for (const Corruption& one : heap.corruptions) {
      line("corruptions where={} arena={} segment={} what={}", one.where.value(), one.arena,
           one.segment, hex(one.what));
    }
  }

  ReferenceRecord references_;
  SnapshotWriter writer_;
  std::ofstream text_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: {} SNAPSHOT TEXT\n", argv[0]);
    return 2;
  }
  try {
    Sample(argv[1], argv[2]).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
