#include "tracker/stack_table.h"

#include "tracker/futex_lock.h"
#include "tracker/table_space.h"

namespace heapsnap::tracker {

StackIndex* stack_index = nullptr;

namespace {

constexpr uint64_t kFirstIndexSize = 4096;
constexpr uint32_t kNodesAtMost = 1U << kStackIdBits;

constinit FutexLock lock;
// Children by (parent, address, module): node ids, 0 is free. Only under the lock.
uint32_t* children = nullptr;
uint64_t children_mask = 0;

uint64_t index_bytes(uint64_t size) {
  return sizeof(StackIndex) + size * sizeof(StackIndexEntry);
}

uint64_t child_hash(uint32_t parent, uint64_t pc, uint32_t module) {
  uint64_t hash = (pc ^ (static_cast<uint64_t>(module) << 48)) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 29) ^ parent) * 0xbf58476d1ce4e5b9;
  return hash ^ (hash >> 32);
}

void put(StackIndex& index, uint64_t hash, uint64_t id) {
  uint64_t i = hash & index.mask;
  while (index.entries[i].id != 0) i = (i + 1) & index.mask;
  index.entries[i].hash = hash;
  store_release(index.entries[i].id, id);
}

// Room for one stack more. The smaller index stays where it is: somebody may be reading it. All
// that ever were together are smaller than the last.
bool make_index_room() {
  const uint64_t size = stack_index->mask + 1;
  const uint64_t used = control.directory->stacks.count;
  if (used < size / 2) return true;
  auto* larger = static_cast<StackIndex*>(map_working_memory(index_bytes(size * 2)));
  if (larger == nullptr) return used < size - size / 8;
  larger->mask = size * 2 - 1;
  larger->smaller = stack_index;
  for (uint64_t i = 0; i < size; ++i) {
    const StackIndexEntry& entry = stack_index->entries[i];
    if (entry.id != 0) put(*larger, entry.hash, entry.id);
  }
  store_release(stack_index, larger);
  return true;
}

bool make_children_room() {
  const uint64_t size = children_mask + 1;
  const uint64_t used = control.directory->nodes.count;
  if (used < size / 2) return true;
  auto* larger = static_cast<uint32_t*>(map_working_memory(size * 2 * sizeof(uint32_t)));
  if (larger == nullptr) return used < size - size / 8;
  const uint64_t mask = size * 2 - 1;
  for (uint64_t i = 0; i < size; ++i) {
    if (children[i] == 0) continue;
    const auto& node = entry<StackNode>(control.directory->nodes, children[i]);
    uint64_t at = child_hash(node.parent, node.return_address, node.module) & mask;
    while (larger[at] != 0) at = (at + 1) & mask;
    larger[at] = children[i];
  }
  unmap_working_memory(children, size * sizeof(uint32_t));
  children = larger;
  children_mask = mask;
  return true;
}

// The node's id, made if need be; 0 when there is no room.
uint32_t child_of(uint32_t parent, uint64_t pc, uint32_t module) {
  ChunkedTable& nodes = control.directory->nodes;
  uint64_t at = child_hash(parent, pc, module) & children_mask;
  for (; children[at] != 0; at = (at + 1) & children_mask) {
    const auto& node = entry<StackNode>(nodes, children[at]);
    if (node.return_address == pc && node.parent == parent && node.module == module)
      return children[at];
  }
  const uint64_t id = nodes.count;
  if (id >= kNodesAtMost) {
    note_limit(kLimitNodes);
    return 0;
  }
  if (chunk_for(nodes, id, kRegionNodes, kLimitNodes) == nullptr) return 0;
  entry<StackNode>(nodes, id) = {parent, module, pc};
  store_release(nodes.count, id + 1);
  children[at] = static_cast<uint32_t>(id);
  make_children_room();
  return children_mask + 1 > nodes.count + 1 ? static_cast<uint32_t>(id) : 0;
}

// Room for a new stack, 0 where there is none.
uint64_t new_stack() {
  ChunkedTable& stacks = control.directory->stacks;
  const uint64_t id = stacks.count;
  if (id >= 1ULL << kStackIdBits) {
    note_limit(kLimitStacks);
    return kNoStack;
  }
  return make_index_room() ? id : kNoStack;
}

// The new stack `id`, whose innermost node is there.
uint32_t add_stack(uint64_t hash, uint64_t id, const StackRecord& from) {
  ChunkedTable& stacks = control.directory->stacks;
  if (chunk_for(stacks, id, kRegionStacks, kLimitStacks) == nullptr) return kStackNotTaken;
  auto& record = entry<StackRecord>(stacks, id);
  record.node = from.node;
  record.depth = from.depth;
  record.sample_bytes = from.sample_bytes;
  store_release(stacks.count, id + 1);
  put(*stack_index, hash, id);
  return static_cast<uint32_t>(id);
}

uint32_t extend_locked(uint64_t hash, uint32_t stack, const uint64_t* frames, uint32_t count) {
  if (const uint32_t id = find_stack(hash); id != kNoStack) return id;  // another thread was first
  const uint64_t id = new_stack();
  if (id == kNoStack) return kStackNotTaken;
  const auto& inside = entry<StackRecord>(control.directory->stacks, stack);
  uint32_t node = inside.node;
  for (uint32_t i = 0; i < count; ++i) {
    node = child_of(node, frames[i], kNoModule);
    if (node == 0) return kStackNotTaken;
  }
  return add_stack(hash, id, {node, inside.depth + count, inside.sample_bytes, 0, 0, 0, 0});
}

uint32_t insert_locked(uint64_t hash, uint32_t root, uint32_t depth, uint64_t sample_bytes,
                       FrameAt frame, void* context) {
  if (const uint32_t id = find_stack(hash); id != kNoStack) return id;  // another thread was first
  const uint64_t id = new_stack();
  if (id == kNoStack) return kStackNotTaken;
  uint32_t node = root;
  uint32_t first = 0;
  for (uint32_t i = depth; i-- > 0;) {
    const PathFrame known = frame(context, i);
    if (known.node != nullptr && *known.node != 0) {
      node = *known.node;
      first = i + 1;
      break;
    }
  }
  for (uint32_t i = first; i < depth; ++i) {
    const PathFrame next = frame(context, i);
    node = child_of(node, next.pc, next.module);
    if (node == 0) return kStackNotTaken;
    if (next.node != nullptr) *next.node = node;
  }
  return add_stack(hash, id, {node, depth, sample_bytes, 0, 0, 0, 0});
}

}  // namespace

uint32_t insert_stack(uint64_t hash, uint32_t root, uint32_t depth, uint64_t sample_bytes,
                      FrameAt frame, void* context) {
  uint32_t id = kStackNotTaken;
  if (lock.lock()) {
    id = insert_locked(hash, root, depth, sample_bytes, frame, context);
    lock.unlock();
  }
  if (id == kStackNotTaken) add(control.directory->dropped_stacks, 1);
  return id;
}

uint32_t extend_stack(uint32_t stack, const uint64_t* frames, uint32_t count) {
  uint64_t hash = (uint64_t{stack} << 32 | count) * 0xd6e8feb86659fd93;
  for (uint32_t i = 0; i < count; ++i) {
    hash = (hash ^ (hash >> 29) ^ frames[i]) * 0xbf58476d1ce4e5b9;
  }
  hash ^= hash >> 32;
  if (const uint32_t id = find_stack(hash); id != kNoStack) return id;
  uint32_t id = kStackNotTaken;
  if (lock.lock()) {
    id = extend_locked(hash, stack, frames, count);
    lock.unlock();
  }
  if (id != kStackNotTaken) return id;
  add(control.directory->dropped_stacks, 1);
  return stack;
}

bool create_stack_table() {
  Directory& directory = *control.directory;
  if (chunk_for(directory.nodes, 0, kRegionNodes, kLimitNodes) == nullptr ||
      chunk_for(directory.stacks, 0, kRegionStacks, kLimitStacks) == nullptr) {
    return false;
  }
  auto* index = static_cast<StackIndex*>(map_working_memory(index_bytes(kFirstIndexSize)));
  children = static_cast<uint32_t*>(map_working_memory(kFirstIndexSize * sizeof(uint32_t)));
  if (index == nullptr || children == nullptr) {
    if (index != nullptr) unmap_working_memory(index, index_bytes(kFirstIndexSize));
    if (children != nullptr) unmap_working_memory(children, kFirstIndexSize * sizeof(uint32_t));
    children = nullptr;
    return false;
  }
  index->mask = kFirstIndexSize - 1;
  children_mask = kFirstIndexSize - 1;
  for (uint32_t id = 0; id < kFirstNode; ++id)
    entry<StackNode>(directory.nodes, id) = {0, kNoModule, 0};
  store_release(directory.nodes.count, kFirstNode);
  store_release(directory.stacks.count, kFirstStack);
  store_release(stack_index, index);
  return true;
}

void clear_stack_table() {
  for (StackIndex* index = stack_index; index != nullptr;) {
    StackIndex* const smaller = index->smaller;
    unmap_working_memory(index, index_bytes(index->mask + 1));
    index = smaller;
  }
  stack_index = nullptr;
  if (children != nullptr) unmap_working_memory(children, (children_mask + 1) * sizeof(uint32_t));
  children = nullptr;
}

bool lock_stack_table() {
  return lock.lock();
}
void unlock_stack_table() {
  lock.unlock();
}
void reset_stack_table_lock() {
  lock = FutexLock();
}

}  // namespace heapsnap::tracker
