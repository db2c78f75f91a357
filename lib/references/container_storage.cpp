#include "references/container_storage.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file_name.h"
#include "references/block_slack.h"

namespace heapsnap {

namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kLooksABlock = 4;
// Three words in a row that lead into a smaller block, the first two the same, are mostly no
// vector's: a queue's first node, its last one, and what the next one will be linked to.
constexpr uint64_t kLargestObject = 512;
// Floating-point 1.0, the load factor that nobody changes.
constexpr uint64_t kLoadFactor = 0x3f800000;

}  // namespace

ContainerStorage::ContainerStorage(Target& target, const BlockMap& map)
    : target_(target),
      map_(map),
      cache_(target.memory()),
      limit_(kLooksABlock * (uint64_t{map.blocks()} + 1)),
      most_containers_(std::clamp<size_t>(map.blocks(), kMostContainers, 4 * kMostContainers)),
      kinds_(map.blocks()),
      tree_nodes_(map.blocks()),
      texts_(map.blocks()),
      capacity_(map.blocks()) {
  for (const AddressRange& range : map.memory()) most_pages_ += range.size() / kPageBytes + 2;
}

namespace {

// Whether a program was linked with -static-libstdc++ or -static: by what std::terminate() says.
bool has_libstdcxx(const ElfImage& image) {
  constexpr std::string_view kLastWords = "terminate called after throwing an instance of";
  const ElfSection* const constants = image.section(".rodata");
  if (constants == nullptr) return false;
  const std::span<const std::byte> bytes = image.bytes_at(constants->address, constants->size);
  return ::memmem(bytes.data(), bytes.size(), kLastWords.data(), kLastWords.size()) != nullptr;
}

}  // namespace

bool ContainerStorage::is_wanted(const LoadedModules& modules, const Process& process) {
  if (word_size(process.machine) != kWordBytes) return false;
  const auto is_library = [](const LoadedModule& module) {
    return file_name_of(module.path()).starts_with("libstdc++.so");
  };
  const auto is_linked_in = [&process](const LoadedModule& module) {
    const bool is_program = module.path() == process.exe || module.image().has_interpreter();
    return is_program && has_libstdcxx(module.image());
  };
  return std::ranges::any_of(modules.all(), is_library) ||
         std::ranges::any_of(modules.all(), is_linked_in);
}

bool ContainerStorage::keep_cut_word(const WordInMemory& word, BlockNumber block) {
  constexpr size_t kMostCutWords = 1 << 18;
  const bool is_in_block = word.source < map_.first_slot();
  if (!is_in_block || !may_read_again() || cut_words_.size() >= kMostCutWords) return false;
  cut_words_.push_back({word.at, block, word.source, word.offset_in_block});
  return true;
}

void ContainerStorage::look_at_cut_words() {
  is_on_stack_ = false;
  std::array<std::byte, (kWordsBefore + kWordsFrom) * kWordBytes> bytes{};
  for (const CutWord& cut : std::exchange(cut_words_, {})) {
    const AddressRange around = present_around(cut);
    const std::span<std::byte> wanted = std::span(bytes).first(around.size());
    if (target_.memory().read(around.begin, wanted) != wanted.size()) continue;
    look_among({cut.at, cut.at - around.begin, wanted, cut.source, cut.offset_in_block}, cut.block);
  }
}

// What lies around a word in its block, of pages that are there as the word's own page is: reading
// another may cost the target something.
AddressRange ContainerStorage::present_around(const CutWord& cut) {
  const Address begin = cut.at - cut.offset_in_block;
  const Address end = begin + map_.usable(begin, hint_);
  AddressRange around{std::max(begin, cut.at - kWordsBefore * kWordBytes),
                      std::min(end, cut.at + kWordsFrom * kWordBytes)};
  PageResidency& residency = target_.residency();
  const uint64_t page_size = residency.page_size();
  const Address own = cut.at.align_down(page_size);
  const auto is_there = [&residency](Address page) {
    PageState state{};
    residency.read(page, {&state, 1});
    return state != PageState::kAbsent && state != PageState::kSwapped;
  };
  if (around.begin < own && !is_there(own - page_size)) around.begin = own;
  if (around.end > own + page_size && !is_there(own + page_size)) around.end = own + page_size;
  return around;
}

void ContainerStorage::mark_capacity(BlockNumber block, uint64_t bytes) {
  uint32_t& known = capacity_[block].all;
  if (known == 0 && bytes != 0) with_capacity_.push_back(block);
  known = std::max(known, words_for(bytes));
}

bool ContainerStorage::is_filled(uint64_t address, uint64_t bytes) {
  return is_filled_by(map_.usable(Address(address), hint_), bytes);
}

void ContainerStorage::look_at_array(const WordInMemory& word, BlockNumber block, uint64_t end,
                                     uint64_t end_of_capacity) {
  uint64_t begin = 0;
  uint64_t beside = 0;
  word.beside(0, begin);
  const uint64_t capacity = end_of_capacity - begin;
  if (capacity == 0 || !is_filled(begin, capacity)) return;
  // Of several that disagree the one with most elements may be the vector.
  uint32_t& elements = capacity_[block].elements;
  elements = std::max(elements, words_for(end - begin));
  if (is_on_stack_) return;
  // Buffers of streams have more pointers into the same block, in a row.
  const auto is_inside = [&] { return beside >= begin && beside <= end_of_capacity; };
  if (word.index >= kWordBytes && word.beside(-1, beside) && is_inside()) return;
  const bool has_fourth = word.beside(3, beside);
  if (has_fourth && is_inside()) return;
  if (end != begin) {
    mark(block, StorageKind::kArray);
    mark_capacity(block, capacity);
  } else if (capacity > kLargestObject) {
    const bool is_no_iterator = has_fourth && !map_.find(beside, hint_);
    if (is_no_iterator) {
      mark_capacity(block, capacity);
    } else if (empty_arrays_.size() < kMostContainers) {
      empty_arrays_.push_back({block, begin, capacity, word.at});
    }
  }
}

// An iterator's fourth word leads to the one of the deque's map that leads back to the buffer.
bool ContainerStorage::may_be_iterator(const EmptyArray& array) {
  constexpr uint64_t kFourth = 3 * kWordBytes;
  const auto page_of = [](Address at) { return at.value() / kPageBytes; };
  // Another page may not be there.
  const Address at = array.header + kFourth;
  if (page_of(at) != page_of(array.header)) return true;
  const auto fourth = cache_.word(at, kWordBytes);
  if (!fourth || !map_.find(*fourth, hint_)) return false;
  return cache_.word(Address(*fourth), kWordBytes).value_or(array.begin) == array.begin;
}

// Their blocks get no kind: too little speaks for it. None counts where not all could be looked at.
void ContainerStorage::find_empty_arrays() {
  if (empty_arrays_.size() == kMostContainers) return;
  std::erase_if(empty_arrays_, [this](const EmptyArray& one) { return may_be_iterator(one); });
  if (cache_.pages_read() >= most_pages_) return;
  for (const EmptyArray& one : empty_arrays_) mark_capacity(one.block, one.bytes);
}

void ContainerStorage::look_at_lists(const WordInMemory& word, uint64_t third) {
  // What orders the elements lies before the header of a tree: at a block's beginning there is a
  // node.
  const bool is_second_word = word.source != kNoBlock && word.offset_in_block == kWordBytes;
  uint64_t first = 0;
  uint64_t second = 0;
  word.beside(0, first);
  word.beside(1, second);
  if (containers_.size() >= most_containers_ || second % kWordBytes != 0) return;
  if (may_count_blocks(third)) {
    const BlockNumber begins = word.offset_in_block == 0 ? word.source : kNoBlock;
    add_container(word, {StorageKind::kListNode, word.at.value(), first, second, third, begins});
    return;
  }
  uint64_t color = 0;
  uint64_t count = 0;
  if (word.index < kWordBytes || !word.beside(-1, color) || (color & UINT32_MAX) != 0 ||
      is_second_word || !word.beside(3, count) || !may_count_blocks(count)) {
    return;
  }
  add_container(word, {StorageKind::kTreeNode, word.at.value() - kWordBytes, first, third, count});
}

// Nodes of trees look like lists whose length is their key: there can be as many as blocks. Most
// are told by words that are at hand, so that leads_back() need not read them again.
void ContainerStorage::add_container(const WordInMemory& word, const NodeContainer& container) {
  if (word.is_contradicted(container.first + kWordBytes, container.header)) return;
  if (container.nodes == StorageKind::kListNode &&
      word.is_contradicted(container.last, container.header)) {
    return;
  }
  containers_.push_back(container);
}

void ContainerStorage::look_at_node(const WordInMemory& word, uint64_t left, uint64_t right) {
  uint64_t color = 0;
  if (!word.beside(-1, color) || (color & UINT32_MAX) > 1 || (left != 0 && !map_.may_hold(left)) ||
      (right != 0 && !map_.may_hold(right)) ||
      map_.usable(word.at - kParentAt, hint_) < kTreeNodeBytes) {
    return;
  }
  tree_nodes_[word.source] = tree_marks_of(left, right);
}

void ContainerStorage::look_at_buckets(const WordInMemory& word, BlockNumber block,
                                       uint64_t buckets, uint64_t first) {
  uint64_t address = 0;
  uint64_t count = 0;
  uint64_t load_factor = 0;
  uint64_t next_resize = 0;
  word.beside(0, address);
  if (!word.beside(3, count) || !word.beside(4, load_factor) || !word.beside(5, next_resize) ||
      (load_factor & UINT32_MAX) != kLoadFactor || next_resize != buckets || count > buckets ||
      (first == 0) != (count == 0) || !is_filled(address, buckets * kWordBytes)) {
    return;
  }
  mark(block, StorageKind::kHashBuckets);
  if (count == 0 || containers_.size() >= most_containers_) return;
  containers_.push_back({StorageKind::kHashNode, word.at.value(), first, 0, count});
}

// Of a std::basic_filebuf: where it reads and writes is in its std::basic_streambuf.
void ContainerStorage::look_at_stream(const WordInMemory& word, BlockNumber block, uint64_t size) {
  constexpr int kFirstPointer = -18;  // in words before the one with the buffer
  constexpr int kPointers = 6;
  constexpr uint64_t kSmallest = 64;
  uint64_t begin = 0;
  word.beside(0, begin);
  uint64_t pointers = 0;
  for (int i = kFirstPointer; i < kFirstPointer + kPointers; ++i) {
    uint64_t pointer = 0;
    if (!word.beside(i, pointer)) return;
    if (pointer == 0) continue;
    if (pointer < begin || pointer - begin > size) return;
    ++pointers;
  }
  if (pointers >= 3 && size >= kSmallest && is_filled(begin, size)) {
    mark(block, StorageKind::kStreamBuffer);
  }
}

void ContainerStorage::follow(const BlockEdges& edges, const StartThread& start) {
  if (may_read_again()) {
    look_at_cut_words();
    find_empty_arrays();
    check_texts();
    TextTails tails(take_tails(), map_.blocks());
    follow_nodes(edges, start, tails);
    follow_deques();
    limit_.settle();
    if (!limit_.is_reached()) {
      unused_words_ = tails.find_unused(map_, cache_);
    } else {
      forget_nodes();
    }
  }
  find_slack_words(edges);
  containers_.clear();
  deques_.clear();
  tails_.clear();
  empty_arrays_ = {};
  texts_.release();
  capacity_.release();
  with_capacity_ = {};
  tree_nodes_.release();
}

void ContainerStorage::find_slack_words(const BlockEdges& edges) {
  if (edges.is_cut_off()) return;
  BlockEdges::Hint hint;
  const auto add_if_held = [&](const SlackWords& words) {
    edges.each(words.block, hint, [&](uint32_t offset, BlockNumber) {
      if (!words.contains(offset)) return true;
      slack_words_.push_back(words);
      return false;
    });
  };
  const auto by_block = [](const SlackWords& a, const SlackWords& b) { return a.block < b.block; };
  std::stable_sort(of_deques_.begin(), of_deques_.end(), by_block);
  for (const SlackWords& words : of_deques_) with_capacity_.push_back(words.block);
  std::sort(with_capacity_.begin(), with_capacity_.end());
  const auto end = std::unique(with_capacity_.begin(), with_capacity_.end());
  auto of_deque = of_deques_.begin();
  for (auto at = with_capacity_.begin(); at != end; ++at) {
    const BlockNumber block = *at;
    while (of_deque != of_deques_.end() && of_deque->block < block) ++of_deque;
    const StorageKind known = kind(block);
    if (of_deque != of_deques_.end() && of_deque->block == block) {
      if (known == StorageKind::kDequeMap || known == StorageKind::kDequeBuffer) {
        add_if_held(*of_deque);
      }
    } else if (known == StorageKind::kArray || known == StorageKind::kNone) {
      const auto [capacity, elements] = capacity_[block];
      add_if_held({block, capacity, 0, capacity - std::min(capacity, elements)});
    } else if (known == StorageKind::kDequeBuffer) {
      add_if_held({block, capacity_[block].all});
    }
  }
  of_deques_.clear();
}

void ContainerStorage::follow_nodes(const BlockEdges& edges, const StartThread& start,
                                    TextTails& tails) {
  // Some nodes known and some not would be worse than none.
  if (containers_.size() >= most_containers_) return limit_.reach();
  // In the order of addresses, so that pages are read once: most of these are none.
  std::stable_sort(containers_.begin(), containers_.end(), leads_before);
  std::erase_if(containers_, [this](const NodeContainer& one) { return !leads_back(one); });
  const std::vector<NodeContainer> copies = take_copies(containers_);
  if (edges.is_cut_off()) return;
  // The last node of each table, and of a tree what the scan did not see whole.
  const uint64_t most_reads = most_pages_ + containers_.size();
  NodeSource source(map_, edges, tree_nodes_.span(), cache_, most_reads, limit_);
  // What the other thread finds.
  LargeArray<uint8_t> other_kinds(map_.blocks());
  std::array<std::vector<NodeContainer>, kNodeThreads> known;
  const auto mark_all = [&](unsigned thread, const NodeContainer& container, const NodeSet& nodes) {
    LargeArray<uint8_t>& kinds = thread == 0 ? kinds_ : other_kinds;
    nodes.each([&](BlockNumber node) { mark_in(kinds, node, container.nodes); });
    tails.add(container, nodes);
    known.at(thread).push_back(container);
  };
  const auto in_blocks =
      std::stable_partition(containers_.begin(), containers_.end(),
                            [](const NodeContainer& one) { return one.begins == kNoBlock; });
  follow_containers(source, {containers_.begin(), in_blocks}, start, mark_all);
  mark_all_of(other_kinds.span());
  // Nodes of those lists.
  const auto rest = std::remove_if(in_blocks, containers_.end(), [this](const auto& one) {
    return kind(one.begins) == StorageKind::kListNode;
  });
  for (auto one = in_blocks; one != rest; ++one) one->is_like_node = begins_like_node(*one);
  // Of several in one ring, all but the first are taken for nodes, too.
  std::sort(in_blocks, rest, [](const NodeContainer& a, const NodeContainer& b) {
    return std::pair(a.is_like_node, a.begins) < std::pair(b.is_like_node, b.begins);
  });
  follow_lists_in_blocks(source, {in_blocks, rest}, mark_all);
  for (const auto& of_thread : known) {
    for (const NodeContainer& container : of_thread) {
      add_known(container);
      const auto [begin, end] =
          std::equal_range(copies.begin(), copies.end(), container, leads_before);
      for (auto copy = begin; copy != end; ++copy) add_known(*copy);
    }
  }
  std::sort(known_containers_.begin(), known_containers_.end());
  const auto last = std::unique(known_containers_.begin(), known_containers_.end());
  known_containers_.erase(last, known_containers_.end());
}

void ContainerStorage::add_known(const NodeContainer& container) {
  // What looks like the only node may be the first piece of a memory resource's chunk.
  if (container.count == 1) return;
  // Where the header (container_nodes.h) has them, and how many.
  uint64_t first_word = 0;
  uint32_t words = 2;
  if (container.nodes == StorageKind::kTreeNode) {
    first_word = 1;
    words = 3;
  } else if (container.nodes == StorageKind::kHashNode) {
    first_word = 2;
    words = 1;
  }
  const Address at = Address(container.header) + first_word * kWordBytes;
  const auto place = map_.find(at.value(), hint_);
  if (!place) {
    known_containers_.push_back({kNoBlock, 0, at, words});
  } else if (place->block < map_.first_slot() && place->offset / kWordBytes <= UINT32_MAX) {
    const auto word = static_cast<uint32_t>(place->offset / kWordBytes);
    known_containers_.push_back({place->block, word, {}, words});
  }
}

// What is no kind is 0, and would come first.
void ContainerStorage::mark_all_of(std::span<const uint8_t> kinds) {
  uint8_t* const known = kinds_.data();
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto mine = static_cast<uint8_t>(known[i] - 1);
    const auto other = static_cast<uint8_t>(kinds[i] - 1);
    known[i] = static_cast<uint8_t>(std::min(mine, other) + 1);
  }
}

// Whether a list begins with the first byte of a block that is as large as its first or last node,
// but for a rest that was too small for a chunk of its own, or not larger than its only one.
bool ContainerStorage::begins_like_node(const NodeContainer& list) {
  if (list.begins == kNoBlock) return false;
  constexpr uint64_t kRest = 16;
  const uint64_t own = map_.usable(Address(list.header), hint_);
  const auto is_like = [&](uint64_t node) {
    const uint64_t other = map_.usable(Address(node), hint_);
    return std::max(own, other) - std::min(own, other) <= kRest;
  };
  if (list.first == list.last) return own <= map_.usable(Address(list.first), hint_);
  return is_like(list.first) || is_like(list.last);
}

// Whether the nodes at the ends of what is taken for a container lead back to it.
bool ContainerStorage::leads_back(const NodeContainer& container) {
  switch (container.nodes) {
    case StorageKind::kListNode:
      return cache_.word(Address(container.first) + kWordBytes, kWordBytes) == container.header &&
             cache_.word(Address(container.last), kWordBytes) == container.header;
    case StorageKind::kTreeNode: return leads_back_from_root(container);
    default: return true;
  }
}

// Marks the root of a tree, too: the scan sees no reference in one that has no children.
bool ContainerStorage::leads_back_from_root(const NodeContainer& tree) {
  std::array<uint64_t, kTreeNodeBytes / kWordBytes - 1> words{};
  const auto bytes = std::as_writable_bytes(std::span(words));
  if (cache_.read(Address(tree.first), bytes) != bytes.size() || words[1] != tree.header) {
    return false;
  }
  const auto root = map_.find(tree.first, hint_);
  if (root && root->block < map_.first_slot() && (words[0] & UINT32_MAX) <= 1 &&
      map_.usable(Address(tree.first), hint_) >= kTreeNodeBytes) {
    tree_nodes_[root->block] = tree_marks_of(words[2], words[3]);
  }
  return true;
}

// Some of one sort known and some not would be worse than none.
void ContainerStorage::forget_nodes() {
  known_containers_.clear();
  for (uint8_t& kind : kinds_) {
    const auto known = static_cast<StorageKind>(kind);
    if (known <= StorageKind::kHashNode || known == StorageKind::kDequeMap ||
        known == StorageKind::kDequeBuffer) {
      kind = 0;
    }
  }
}

}  // namespace heapsnap
