// The end of a ReferenceCapture, when the target is released: names of roots, and types of blocks.
#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "tools/capture/reference_capture.h"

namespace heapsnap {

namespace {

constexpr uint64_t kTypesTogether = 64 << 10;

}  // namespace

ReferenceRecord ReferenceCapture::finish(SnapshotWriter& writer, std::vector<std::string>& notes) {
  if (!record_.is_complete) return record_;
  record_.roots = roots_.size() + variables_.size();
  try {
    write_roots(writer);
    std::vector<BlockType> names = types_.names(debug_files_);
    if (debug_types_->is_wanted()) {
      sizes_->finish();
      map_.reset();
      debug_types_->run({root_context(), *edges_, words_, roots_, entry_of_block_.span(), names,
                         types_.elements(), types_.elements_at(), slack_words_});
    }
    write_block_types(std::move(names), writer);
  } catch (const std::bad_alloc&) {
    lack_memory();
  }
  notes.insert(notes.end(), left_out_.begin(), left_out_.end());
  const auto& of_types = debug_types_->notes();
  notes.insert(notes.end(), of_types.begin(), of_types.end());
  return record_;
}

RootContext ReferenceCapture::root_context() const {
  return {regions_, modules_, stacks_, target_->address_space(), target_->process().machine};
}

void ReferenceCapture::write_roots(SnapshotWriter& writer) {
  NamedRoots named = name_roots(root_context(), words_, registers_, debug_files_);
  for (size_t i = 0; i < roots_.size(); ++i) {
    Root root = roots_[i];
    root.place = named.place_of[i];
    if (i < words_.size()) root.offset = words_[i].address - named.places[root.place].begin;
    writer.on_root(root);
  }
  // As the runtimes named them: locals of outer calls come first.
  std::stable_sort(variables_.begin(), variables_.end(),
                   [](const Root& a, const Root& b) { return a.place < b.place; });
  for (const Root& variable : variables_) {
    const RuntimeObjects::Variable& known = objects_.variables[variable.place];
    writer.on_root(
        {static_cast<uint32_t>(named.places.size()), 0, variable.target, variable.interior});
    named.places.push_back({known.kind, known.tid, known.module, known.name, known.word,
                            sizeof(uint64_t), known.function.value()});
  }
  writer.on_root_places(named.places);
}

// What a block says itself counts most, unless debug information says that it is more; then what a
// language runtime says of it; then what debug information says, unless that is only that it holds
// numbers; then what containers say.
void ReferenceCapture::write_block_types(std::vector<BlockType> names, SnapshotWriter& writer) {
  const auto by_storage = static_cast<TypeNumber>(names.size());
  const auto by_runtime = by_storage + TypeNumber{kStorageKindCount};
  const auto by_debug = by_runtime + static_cast<TypeNumber>(objects_.buffer_kinds.size());
  const bool has_storage = !storage_of_block_.empty();
  const auto kind_of = [&](BlockNumber block) {
    return has_storage ? static_cast<StorageKind>(storage_of_block_[block]) : StorageKind::kNone;
  };
  const auto type_of_kind = [by_storage](StorageKind kind) -> TypeNumber {
    return kind != StorageKind::kNone ? by_storage + static_cast<TypeNumber>(kind) : 0;
  };
  const auto type_by_all_sources = [&](BlockNumber block) -> TypeNumber {
    const TypeNumber entry = entry_of_block_[block];
    if (entry != 0) {
      const TypeNumber whole = debug_types_->whole_of(block);
      return whole != 0 ? by_debug + whole : entry;
    }
    if (object_references_ && object_references_->buffer_kind(block) != 0) {
      return by_runtime + object_references_->buffer_kind(block) - 1;
    }
    const StorageKind kind = kind_of(block);
    // Of a program with a libstdc++ of its own, nobody has looked at the words of vectors.
    const bool has_elements =
        has_storage ? kind == StorageKind::kArray : debug_types_->is_of_container(block);
    const TypeNumber found = debug_types_->type_of(block, has_elements);
    const bool says_less =
        found == 0 || (kind != StorageKind::kNone && (debug_types_->is_plain(found) ||
                                                      debug_types_->is_contradicted(block, kind)));
    return says_less ? type_of_kind(kind) : by_debug + found;
  };
  // The same where neither a runtime nor debug information says anything: most blocks.
  const auto type_without_claims = [&](BlockNumber block) {
    const TypeNumber entry = entry_of_block_[block];
    return entry != 0 ? entry : type_of_kind(kind_of(block));
  };
  std::vector<TypeNumber> types;
  for (uint64_t at = 0; at < record_.blocks; at += kTypesTogether) {
    const auto first = static_cast<BlockNumber>(at);
    types.resize(std::min(kTypesTogether, record_.blocks - at));
    if (object_references_ || debug_types_->knows_any(first, types.size())) {
      for (BlockNumber i = 0; i < types.size(); ++i) types[i] = type_by_all_sources(first + i);
    } else {
      for (BlockNumber i = 0; i < types.size(); ++i) types[i] = type_without_claims(first + i);
    }
    writer.on_block_types(types);
  }
  for (BlockType& type : names) {
    if (type.source == TypeSource::kVtable) debug_types_->describe(type);
  }
  names.emplace_back();  // for StorageKind::kNone
  for (int kind = 1; kind < kStorageKindCount; ++kind) {
    names.push_back({to_string(static_cast<StorageKind>(kind)), "", TypeSource::kStructure});
  }
  for (const RuntimeObjects::BufferKind& kind : objects_.buffer_kinds) {
    names.push_back({kind.name, "", TypeSource::kRuntime, "", "", kind.is_exact});
  }
  const auto& found = debug_types_->types();
  names.insert(names.end(), found.begin(), found.end());
  // What is something else by another source is no container's storage.
  std::vector<bool> are_elements;
  for (const BlockType& type : names) are_elements.push_back(holds_elements(type));
  for (SlackWords& words : slack_words_) {
    const bool is_by_debug = type_by_all_sources(words.block) >= by_debug;
    if (is_by_debug && debug_types_->is_other_array(words.block)) words.spare = 0;
  }
  std::erase_if(slack_words_, [&](const SlackWords& words) {
    const TypeNumber type = type_by_all_sources(words.block);
    return type != 0 && !are_elements[type] && !words.are_all();
  });
  std::vector<UnusedWord> of_typed = debug_types_->find_unused_words();
  std::erase_if(of_typed, [&](const UnusedWord& unused) {
    return entry_of_block_[unused.block] == 0 && type_by_all_sources(unused.block) < by_debug;
  });
  std::vector<UnusedWord> unused_words;
  std::ranges::set_union(unused_words_, of_typed, std::back_inserter(unused_words));
  entry_of_block_.release();
  writer.on_type_names(names);
  writer.on_slack_words(slack_words_);
  writer.on_unused_words(unused_words);
  writer.on_containers(containers_);
}

}  // namespace heapsnap
