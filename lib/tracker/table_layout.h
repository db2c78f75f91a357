// The tables that libheapsnap_tracker.so keeps in the process it is loaded into, byte by byte.
//
// The library only writes them; readers access the tables from outside (process_vm_readv, a core
// file, a raw image). So this header is all that the two sides share: structs of fixed-width
// integers, the same on every compiler of one byte order.
//
//   Directory (one page: kDirectoryMagic, its own address)
//     |
//     +- live_root --> [address / 64 MiB] --> leaf: 32 bits for each 32 bytes: stack id | slack
//     +- stacks  ----> [stack id]  StackRecord: innermost node, weight, counts
//     +- nodes   ----> [node id]   StackNode: parent (the caller), return address, module
//     +- threads ----> [n]         ThreadRecord: tid, counts, --> PendingCounts of some stacks
//     +- modules ----> [n]         ModuleRecord: path, build-id, range, when loaded and unloaded
//     +- functions --> [n]         FunctionRecord: of an interpreted program
//     +- hooks   ----> [n]         HookEntry: what to patch, where the way to the original is kept
//     +- regions ----> [n]         Region: each mapping of the above, its place in the memfd if any
//
// How to find the Directory: the word at the exported symbol `heapsnap_tracker_directory` holds its
// address (0 before the first start). Without symbols: it is the first page of a mapping, begins
// with kDirectoryMagic, and `self` is its own address; where the kernel can (5.17 and later), the
// mapping is called "[anon:heapsnap_directory]" in /proc/PID/maps, and those made with it
// "[anon:heapsnap_tables]". Later ones have no name: the program may bar prctl(2) meanwhile.
//
// How to read while the process runs: tables only grow, an entry is complete before the count that
// covers it is raised, and nothing is ever moved or unmapped while state is kRecording. Counts may
// be those of different instants. With all threads stopped everything is exact but for the event
// that each stopped thread was in the middle of.
//
// Every pointer is an address in the traced process, as 64 bits; 0 is "not there". All of it is
// hostile input for a reader: the process may have overwritten anything.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

inline constexpr uint64_t kDirectoryMagic = 0x315254'50414e5348;  // "HSNAPTR1", little endian
inline constexpr uint32_t kLayoutVersion = 1;                     // a reader refuses any other
inline constexpr char kDirectorySymbol[] = "heapsnap_tracker_directory";
inline constexpr char kDirectoryMapping[] = "heapsnap_directory";
inline constexpr char kTableMapping[] = "heapsnap_tables";

// --- Live blocks ---------------------------------------------------------------------------------

// live_root[address >> kLeafShift] is the address of a leaf or 0; leaf[(address >> kGranuleShift) &
// (kLeafSlots - 1)] is the slot of the block whose user pointer (what malloc returned) is
// `address`. Two blocks of ptmalloc are never within 32 bytes of each other. Pages of a leaf that
// no block ever started in were never touched, so skip what is not resident.
inline constexpr unsigned kAddressBits = 47;
inline constexpr unsigned kLeafShift = 26;                                     // 64 MiB a leaf
inline constexpr uint64_t kRootEntries = 1ULL << (kAddressBits - kLeafShift);  // uint64_t each
inline constexpr unsigned kGranuleShift = 5;
inline constexpr uint64_t kLeafSlots = 1ULL << (kLeafShift - kGranuleShift);  // uint32_t each

// A slot: stack id << kSlackBits | slack. 0 (kEmptySlot): no block starts here that was recorded,
// that is, it is free, or it was allocated before recording began, or sampling passed it over.
// Slack = usable size (malloc_usable_size) - requested size, so a reader that knows the chunk gets
// back what the program asked for. kSlackUnknown: 31 or more (aligned and mmapped blocks); take
// usable size. The size that the counts below were charged with is usable size - slack, with slack
// 0 if unknown.
inline constexpr uint32_t kEmptySlot = 0;
inline constexpr unsigned kSlackBits = 5;
inline constexpr uint32_t kSlackUnknown = (1U << kSlackBits) - 1;
inline constexpr unsigned kStackIdBits = 32 - kSlackBits;
inline constexpr uint32_t stack_id_of(uint32_t slot) {
  return slot >> kSlackBits;
}
inline constexpr uint32_t slack_of(uint32_t slot) {
  return slot & kSlackUnknown;
}

// Stack ids that are no call path. Their StackRecord exists and is counted like any other.
inline constexpr uint32_t kNoStack = 0;        // never in a slot; its record stays zero
inline constexpr uint32_t kStackNotTaken = 1;  // recorded, but without a stack: a signal handler
                                               // that allocated inside a hook, or a table was full
inline constexpr uint32_t kFirstStack = 2;

// --- A table that grows by chunks ----------------------------------------------------------------

// Entry i is at chunks[i >> chunk_shift] + (i & ((1 << chunk_shift) - 1)) * entry_size, where
// chunks is an array of chunk_capacity addresses (uint64_t). Entries [0, count) are complete. A
// chunk never moves.
struct ChunkedTable {
  uint64_t chunks;
  uint64_t count;
  uint32_t entry_size;  // a reader of a later minor change: at least sizeof of the struct below
  uint32_t chunk_shift;
  uint32_t chunk_capacity;
  uint32_t reserved;
};

// --- Call stacks ---------------------------------------------------------------------------------

// One frame of one call path; the same outer frames share nodes. From the innermost node of a stack
// follow `parent` outwards until a node below kFirstNode: that one says why the stack ends there.
// parent < own id always, so a walk ends.
struct StackNode {
  uint32_t parent;
  uint32_t module;          // index into modules, or kNoModule
  uint64_t return_address;  // as on the stack: look up return_address - 1. The frame outside of a
                            // signal frame (module's code is __restore_rt) is the exact address.
};
inline constexpr uint32_t kRootNone = 0;        // no frames at all (no stack was asked for)
inline constexpr uint32_t kRootComplete = 1;    // reached the thread's first function
inline constexpr uint32_t kRootDepthLimit = 2;  // max_frames reached; there are more
inline constexpr uint32_t kRootNoUnwindInfo =
    3;  // truncated: the next address has no CFI (JIT code)
inline constexpr uint32_t kRootBadFrame =
    4;                                     // truncated: CFI led out of the stack, or is beyond us
inline constexpr uint32_t kFirstNode = 8;  // 5..7 reserved
inline constexpr uint32_t kNoModule = 0xffffffff;

// A frame of an interpreter is a node, too, of no module. Its return_address is none (no address
// has the highest bit) but the function's index and where in its code it is:
//
//   63 kInterpreterFrame | 62 kInterpreterEntry | 61..32 index | 31..0 byte of its instructions
//
// All frames of the interpreter lie inside of the native ones: innermost native frame, outermost
// frame of the interpreter, ..., innermost one. kInterpreterEntry: the outermost of those that one
// call of the interpreter's loop runs, so a reader can put each at its place among native frames.
inline constexpr uint64_t kInterpreterFrame = 1ULL << 63;
inline constexpr uint64_t kInterpreterEntry = 1ULL << 62;
inline constexpr unsigned kFunctionShift = 32;
inline constexpr unsigned kFunctionBits = 30;
constexpr uint32_t function_of(uint64_t frame) {
  return static_cast<uint32_t>(frame >> kFunctionShift & ((1ULL << kFunctionBits) - 1));
}
constexpr uint32_t instruction_of(uint64_t frame) {
  return static_cast<uint32_t>(frame);
}
inline constexpr uint32_t kMoreFunctions = 0;    // there are more frames of the interpreter
inline constexpr uint32_t kUnknownFunction = 1;  // of a function for which there was no room
inline constexpr uint32_t kFirstFunction = 2;

// A call path that allocated, and what it did. For the current truth add to the four counts the
// PendingCounts of every ThreadRecord with this stack_id.
//
// Weights. sample_bytes is 0 when each allocation was recorded; then a count is a count. Otherwise
// the stack was recorded by Poisson samples over bytes with that mean distance, and a block of size
// s was seen with probability p = 1 - exp(-s / sample_bytes): each block found in the slots stands
// for 1 / p blocks and s / p bytes, and the counts below have been charged with these weights:
// bytes in bytes, numbers in units of 1 / kSampledCountUnit. Sums of either are unbiased. The same
// call path has a record for each sample_bytes it was recorded under.
struct StackRecord {
  uint32_t node;   // innermost: the caller of malloc
  uint32_t depth;  // number of frames
  uint64_t sample_bytes;
  uint64_t allocations;
  uint64_t frees;
  uint64_t allocated_bytes;
  uint64_t freed_bytes;
};
inline constexpr uint64_t kSampledCountUnit = 256;

// What a thread has not yet added to StackRecord, so that the hot path needs no atomic addition.
// stack_id 0: unused. While a thread moves an entry to the record its stack_id is 0, so a stopped
// process can lack one entry a thread, never count one twice.
struct PendingCounts {
  uint32_t stack_id;
  uint32_t allocations;
  uint32_t frees;
  uint32_t reserved;
  uint64_t allocated_bytes;
  uint64_t freed_bytes;
};

// --- Threads -------------------------------------------------------------------------------------

// A thread that allocated or freed while recording. Stays after its thread has exited; that is
// noticed late or never, so ask the kernel which tids live (a reused tid gets a record of its own,
// the newest counts). When the table is full, exited threads are added up in record 0 (tid 0).
// Counts are of events at the hooks while recording (of all of them also when sampling), not
// weighted.
struct ThreadRecord {
  uint32_t tid;
  uint32_t state;    // kThread...
  uint64_t pending;  // address of pending_count PendingCounts, or 0
  uint64_t pending_count;
  uint64_t allocations;
  uint64_t frees;  // of blocks that were recorded
  uint64_t allocated_bytes;
  uint64_t freed_bytes;
  uint64_t without_stack;  // of the allocations: kStackNotTaken
  uint64_t truncated;      // stacks newly unwound that ended at kRootNoUnwindInfo or kRootBadFrame
  uint64_t unused[2];      // the thread's name is the kernel's to tell (/proc/PID/task/TID/comm)
  uint64_t generation;     // Directory::process_generation it belongs to
  uint64_t unrecorded;     // allocations since limit_reached_ns, but for those in signal handlers
  uint64_t reserved[3];
};
inline constexpr uint32_t kThreadUnused = 0;
inline constexpr uint32_t kThreadSeen = 1;  // was alive when last looked at
inline constexpr uint32_t kThreadExited = 2;

// --- Modules -------------------------------------------------------------------------------------

// An ELF file mapped by the loader. When it is dlclosed the record stays, with unloaded set, so
// stacks of then can still be symbolized; another module at the same addresses is another record.
struct ModuleRecord {
  uint64_t bias;   // add to an ELF virtual address
  uint64_t begin;  // mapped range, first to last segment
  uint64_t end;
  uint64_t path;  // address of path_size bytes, no NUL; "" for the main program of an old loader
  uint32_t path_size;
  uint32_t build_id_size;  // 0: has none
  uint8_t build_id[32];
  uint64_t loaded;    // Directory::module_generation when it was first seen
  uint64_t unloaded;  // the same when it was found gone, or 0
};

// --- Functions of an interpreted program --------------------------------------------------------

// A copy of bytes that the interpreter had.
struct CopiedText {
  uint64_t address;  // in the tables
  uint32_t size;     // bytes
  uint32_t width;    // of a character: 1 (Latin-1), 2 or 4; 0: UTF-8
};
inline constexpr uint32_t kLongestName = 1024;        // bytes; what is longer is cut
inline constexpr uint32_t kLongestFile = 4096;        // the same; of a path the end is kept
inline constexpr uint32_t kLongestLineTable = 32768;  // longer ones are left out

// Copied when the function was first seen, since its code may be deleted long before the table is
// read. Functions of which all of this is the same have one entry.
struct FunctionRecord {
  uint32_t language;  // kInterpreter...
  uint32_t first_line;
  uint64_t identity;  // a hash of all that follows
  CopiedText name;
  CopiedText file;
  CopiedText lines;       // Python: co_linetable; Ruby: insns_info.body
  CopiedText line_index;  // Ruby: insns_info.succ_index_table
  uint64_t code_words;    // Ruby: iseq_size
  uint64_t line_count;    // Ruby: insns_info.size
};

inline constexpr uint32_t kInterpreterNone = 0;
inline constexpr uint32_t kInterpreterPython = 1;  // of 3.11 and later
inline constexpr uint32_t kInterpreterRuby = 2;    // of 3.1 and later

// Where an interpreter has what the tracker reads of it: addresses and offsets, as only heapsnap
// knows them, which writes this into the Directory of the process. The tracker has no table of
// versions. Nothing of it changes while `kind` is set, which is written last.
inline constexpr uint32_t kNoOffset = 0xffffffff;
struct InterpreterLayout {
  uint32_t kind;  // kInterpreter...
  // An int in Python's code: how many instructions come before what its programmers wrote. A frame
  // that is there is not shown, as in Python's own tracebacks.
  uint32_t code_first_traceable;
  uint64_t loop_begin;  // the code of the interpreter's loop
  uint64_t loop_end;
  // The thread's own state (PyThreadState): thread_specific(key).
  uint64_t thread_specific;  // void* (*)(uint32_t), as pthread_getspecific(3)
  uint64_t key;
  // The thread has the interpreter's lock where *holder is its state and *locked, an int, is not 0.
  uint64_t holder;
  uint64_t locked;  // 0: there is no such word
  uint64_t code_type;
  uint64_t text_type;
  uint64_t bytes_type;
  // Offsets.
  uint32_t thread_frame;     // the innermost frame, or what leads to it at:
  uint32_t c_frame_current;  // or kNoOffset
  uint32_t frame_previous;
  uint32_t frame_code;
  uint32_t frame_instruction;
  uint32_t frame_owner;
  uint32_t frame_entry;  // a byte: it is the outermost one of a loop; or kNoOffset: see kOwnerLoop
  uint32_t code_name;
  uint32_t code_file;
  uint32_t code_first_line;
  uint32_t code_lines;
  uint32_t code_instructions;
  uint32_t text_length;
  uint32_t text_state;
  uint32_t text_ascii;  // characters, of one byte each and ASCII only
  uint32_t text_wide;   // all others
  // Of Ruby: where a thread has its execution context, seen from its thread pointer; the thread has
  // the interpreter's lock where *holder is that. Of the above, frame_code (iseq),
  // frame_instruction (pc), code_name (label), code_file and code_lines are used, of the iseq's
  // body.
  uint64_t context;
  uint32_t context_frame;
  uint32_t context_stack;
  uint32_t context_stack_size;
  uint32_t frame_bytes;
  uint32_t frame_env;
  uint32_t frame_entry_flag;  // in the word that frame_env leads to
  uint32_t code_body;
  uint32_t code_begin;
  uint32_t code_size;
  uint32_t code_line_count;
  uint32_t code_line_index;
  uint32_t line_bytes;
  uint32_t line_number;
  uint32_t line_index_blocks;
  uint32_t line_index_block_bytes;
  uint32_t text_has_length;  // in front of bytes that lie in the slot
};

// --- Hooks ---------------------------------------------------------------------------------------

// One entry point of the allocator. To hook from outside: write to *original the address of code
// that does what the entry point did (the displaced instructions, then a jump behind them), then
// patch the entry point to jump to `hook`. `hook` has the entry point's own C signature and expects
// the caller's return address on the stack. *original is the function that the call would
// reach without the library as long as nobody wrote to it, which is right when it was preloaded.
struct HookEntry {
  char name[24];  // "malloc", NUL-terminated
  uint64_t hook;
  uint64_t original;  // address of the word
};

// --- Mappings --------------------------------------------------------------------------------

// Every mapping that holds a part of the tables, and private working memory; kind 0: an entry that
// is being written. If only the memfd is left (the process is gone): the Directory is at file
// offset 0, the regions follow it at kDirectorySize, and they translate addresses to file offsets.
struct Region {
  uint64_t address;
  uint64_t size;
  uint64_t file_offset;  // in the memfd given at start; kNoFileOffset: anonymous memory
  uint32_t kind;         // kRegion...
  uint32_t reserved;
};
inline constexpr uint64_t kNoFileOffset = ~0ULL;
inline constexpr uint32_t kRegionDirectory = 1;
inline constexpr uint32_t kRegionLiveRoot = 2;
inline constexpr uint32_t kRegionLiveLeaf = 3;
inline constexpr uint32_t kRegionChunks = 4;  // an array of chunk addresses
inline constexpr uint32_t kRegionNodes = 5;
inline constexpr uint32_t kRegionStacks = 6;
inline constexpr uint32_t kRegionThreads = 7;
inline constexpr uint32_t kRegionPending = 8;
inline constexpr uint32_t kRegionModules = 9;
inline constexpr uint32_t kRegionStrings = 10;
inline constexpr uint32_t kRegionRegions = 11;
// Working memory, of which no reader needs the contents. Its entry is vacant when it was unmapped.
inline constexpr uint32_t kRegionWorking = 12;
inline constexpr uint32_t kRegionVacant = 13;
inline constexpr uint32_t kRegionFunctions = 14;

// --- Directory -------------------------------------------------------------------------------

inline constexpr uint64_t kDirectorySize = 4096;

struct Directory {
  uint64_t magic;
  uint32_t version;               // kLayoutVersion
  uint32_t directory_size;        // kDirectorySize
  uint64_t self;                  // its own address
  uint32_t state;                 // kState...
  uint32_t pid;                   // as getpid() gives it inside; a forked child sets its own
  uint64_t process_generation;    // 1; one more in each forked child that inherits the tables
  uint64_t start_count;           // how often recording was started, or its options changed
  uint64_t started_monotonic_ns;  // CLOCK_MONOTONIC of the last start, from which counters count

  // Options in force.
  uint64_t sample_bytes;  // 0: every allocation
  uint32_t max_frames;    // innermost frames kept; kFramesAtMost stands for "no limit"
  uint32_t allocator;     // kAllocator...
  uint64_t memory_limit;  // bytes that memory_used may come to; 0: none

  // Tables.
  uint64_t live_root;  // address of kRootEntries uint64_t
  uint64_t live_root_entries;
  ChunkedTable nodes;     // StackNode
  ChunkedTable stacks;    // StackRecord
  ChunkedTable threads;   // ThreadRecord
  ChunkedTable modules;   // ModuleRecord
  ChunkedTable regions;   // Region
  uint64_t region_chunk;  // the one chunk of regions; regions.chunks is the address of this
  uint64_t hooks;         // address of hook_count HookEntry
  uint32_t hook_count;
  uint32_t hook_entry_size;

  // What the tables take, and what did not fit. The counters only grow while recording.
  uint64_t memory_reserved;    // address space of tables and working memory
  uint64_t memory_used;        // what of it may be backed by memory; of leaves only with a limit
  uint64_t module_generation;  // raised when a module is found loaded or gone
  uint32_t limits;             // kLimit... bits: what was reached since the start
  uint32_t reserved;
  uint64_t dropped_slots;     // blocks not recorded at all: no leaf, or address beyond kAddressBits
  uint64_t dropped_stacks;    // recorded as kStackNotTaken since a table was full
  uint64_t nested_events;     // events inside a hook of the same thread (signal handlers)
  uint64_t dropped_threads;   // threads that got no record: their events are in dropped_slots
  uint64_t slow_unwinds;      // stacks taken frame by frame from .eh_frame, not by compiled rows
  uint64_t full_unwinds;      // stacks taken without any remembered frame
  uint64_t limit_reached_ns;  // CLOCK_MONOTONIC since when no new block is recorded; 0: they are
  uint64_t malloc_address;    // of the malloc that hooks go on to

  // Frames of an interpreter. All zeros in trackers that know of none.
  ChunkedTable functions;             // FunctionRecord; no chunks: they were never asked for
  uint64_t takes_interpreter_frames;  // whether they were, at the last start
  uint64_t unread_interpreters;       // stacks without them, since what was there did not fit, or
                                      // who added the last ones never came to the end
  uint64_t dropped_functions;         // frames of kUnknownFunction
  InterpreterLayout interpreter;
};
static_assert(sizeof(Directory) <= kDirectorySize);

inline constexpr uint32_t kStateDormant = 1;
inline constexpr uint32_t kStateRecording = 2;

inline constexpr uint32_t kAllocatorPtmalloc = 1;
// The process calls another one, at malloc_address: each hook goes on to it, nothing is recorded,
// and the state is never kStateRecording.
inline constexpr uint32_t kAllocatorForeign = 2;

inline constexpr uint32_t kFramesAtMost = 4096;
inline constexpr uint32_t kDefaultFrames = 64;

// The least memory limit: what tables take without a stack in them, two threads and the rows of a
// small program. A thread needs room for twice the frames that are kept (0: no limit).
constexpr uint64_t least_memory_limit(uint32_t max_frames) {
  constexpr uint32_t kFewFrames = 512;
  return max_frames != 0 && max_frames <= kFewFrames ? 2ULL << 20 : 8ULL << 20;
}

inline constexpr uint32_t kLimitMemory = 1;  // memory_limit kept something from growing
inline constexpr uint32_t kLimitNodes = 2;
inline constexpr uint32_t kLimitStacks = 4;
inline constexpr uint32_t kLimitThreads = 8;
inline constexpr uint32_t kLimitModules = 16;
inline constexpr uint32_t kLimitAddressSpace = 32;  // mmap refused
inline constexpr uint32_t kLimitRegions = 64;
inline constexpr uint32_t kLimitFunctions = 128;

static_assert(sizeof(ChunkedTable) == 32 && sizeof(StackNode) == 16 && sizeof(StackRecord) == 48);
static_assert(sizeof(PendingCounts) == 32 && sizeof(ThreadRecord) == 128);
static_assert(sizeof(FunctionRecord) == 96 && sizeof(InterpreterLayout) == 216);
static_assert(sizeof(ModuleRecord) == 88 && sizeof(HookEntry) == 40 && sizeof(Region) == 32);

}  // namespace heapsnap::tracker
