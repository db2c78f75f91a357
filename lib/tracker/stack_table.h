// Call paths and their ids: the trie of nodes and the stack records of table_layout.h, and the two
// indexes by which the writer finds them again (working memory, of no use to a reader).
//
// A stack is known by a 64-bit hash of all that makes it: addresses, modules, root, weight. find()
// takes no lock and reads one or two lines; insert() is for new stacks and locks.
#pragma once

#include <cstdint>

#include "tracker/control.h"

namespace heapsnap::tracker {

struct StackIndexEntry {
  uint64_t hash;
  uint64_t id;  // 0: free
};
struct StackIndex {
  uint64_t mask;
  StackIndex* smaller;  // the one before
  StackIndexEntry entries[];
};
extern HEAPSNAP_OWN StackIndex* stack_index;

// kNoStack when it is not there.
inline uint32_t find_stack(uint64_t hash) {
  const StackIndex* index = load_acquire(stack_index);
  for (uint64_t i = hash & index->mask;; i = (i + 1) & index->mask) {
    const uint64_t id = load_acquire(index->entries[i].id);
    if (id == 0) return kNoStack;
    if (index->entries[i].hash == hash) return static_cast<uint32_t>(id);
  }
}

struct PathFrame {
  uint64_t pc;
  uint32_t module;
  uint32_t* node;  // memory of the node's id for the next time, or null
};

// A new call path. `frame(context, i)` gives frame i of `depth`, 0 the outermost. A frame that
// knows its node (from an earlier call with the same outer frames and root) spares the walk further
// out. Gives kStackNotTaken when a table is full, which is counted.
using FrameAt = PathFrame (*)(void* context, uint32_t i);
uint32_t insert_stack(uint64_t hash, uint32_t root, uint32_t depth, uint64_t sample_bytes,
                      FrameAt frame, void* context);

// The stack that has `count` nodes more than `stack` has, inside of its innermost one; the
// outermost of them first. Gives `stack` when a table is full, which is counted.
uint32_t extend_stack(uint32_t stack, const uint64_t* frames, uint32_t count);

// Makes the reserved nodes and stacks, and empty indexes. False: no memory.
bool create_stack_table();
// Gives the indexes back; no event is under way.
void clear_stack_table();

// For a fork: nobody is half way through an insertion while the process is copied.
bool lock_stack_table();
void unlock_stack_table();
void reset_stack_table_lock();

}  // namespace heapsnap::tracker
