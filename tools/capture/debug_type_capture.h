// Types of blocks by the debug information of the target's modules, where it is installed.
//
//   in the freeze   the references are kept in memory as they are found (block_edges.h)
//   after it        debug information is read, and followed from variables, thread-local ones and
//                   stack frames, and from objects whose class is known by their vtables
//
// The C library's own is not read: it keeps next to nothing, and its files are large.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elf/debug_file_search.h"
#include "elf/debug_types.h"
#include "references/block_edges.h"
#include "references/block_map.h"
#include "references/block_type.h"
#include "references/block_typing.h"
#include "references/loaded_modules.h"
#include "references/root.h"
#include "references/root_names.h"
#include "references/storage_kind.h"

namespace heapsnap {

class DebugTypeCapture {
 public:
  // `patience_ns`: how long debug information may be read. `most_file_bytes`: of a file, unpacked.
  struct Limits {
    uint64_t patience_ns = 0;
    uint64_t most_file_bytes = 0;
  };

  // Looks for the debug information of the modules.
  DebugTypeCapture(const LoadedModules& modules, const DebugFileSearch& debug_files,
                   const Limits& limits);
  ~DebugTypeCapture();

  // Whether there is any; else run() is not called, and no block has a type.
  bool is_wanted() const { return !sources_.empty(); }

  // What is known by then. `block_entries` are rows of `entries`.
  struct Known {
    const RootContext& context;
    const BlockEdges& edges;  // sealed; with sizes, unless they are cut off
    std::span<const RootWord> words;
    std::span<const Root> roots;  // of the words, then others
    std::span<const TypeNumber> block_entries;
    std::span<const BlockType> entries;
    // By entry: the entry of what it is an array of, or 0; and where the first of them lies.
    std::span<const TypeNumber> elements;
    std::span<const uint8_t> elements_at;
    std::span<const SlackWords> slack_words;  // ascending
  };
  // Afterwards type_of() has the answers. `known.edges` outlives this.
  void run(const Known& known);

  // A row of types(); 0: not known. `has_elements`: a container keeps elements there, so that each
  // word may be one's, if it is an array.
  TypeNumber type_of(BlockNumber block, bool has_elements);
  // Whether what the block has in it, and a container that leads there, contradict what type_of()
  // goes by, which may be left over.
  bool is_contradicted(BlockNumber block, StorageKind kind) const;
  // Of the strings in blocks with types; ascending.
  std::vector<UnusedWord> find_unused_words() const;
  // Whether a container has elements there, as far as types tell: it may have had them.
  bool is_of_container(BlockNumber block) const;
  // Of a block with a type_of(). Whether it is an array, and no container has its elements there.
  bool is_other_array(BlockNumber block) const;
  // The same of a block whose vtable is that of its first member alone.
  TypeNumber whole_of(BlockNumber block);
  // False where neither of them knows anything of `count` blocks from `first` on.
  bool knows_any(BlockNumber first, size_t count) const {
    return typing_ && typing_->has_claims(first, count);
  }
  // Says of a class that a vtable names which pointers it has, and its size, if these are known.
  void describe(BlockType& named) const;
  // Whether it says no more than that there are numbers or characters.
  bool is_plain(TypeNumber type) const { return is_plain_[type]; }
  const std::vector<BlockType>& types() const { return types_; }
  // What was left out, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Asked;  // of one module
  struct Claims {
    std::vector<BlockTyping::Claim> of_variables;
    std::vector<BlockTyping::Claim> of_frames;
  };

  // A module's file with debug information.
  struct Source {
    std::shared_ptr<const ModuleFile> module;
    std::optional<ElfImage> debug_file;  // none: the module's own
    const ElfImage& image() const { return debug_file ? *debug_file : module->image; }
  };

  // A class by name; one that each file may have another of also by the module that its vtable is
  // of.
  struct ClassKey {
    std::string name;
    std::string module;
    auto operator<=>(const ClassKey&) const = default;
  };

  static ClassKey key_of(const BlockType& type);
  static void ask_for_words(const Known& known, std::vector<Asked>& asked);
  void read(const Source& source, Asked& asked, Claims& claims);
  uint64_t pointers_of(const DebugType& type) const;
  void describe(BlockType& named, const DebugType& type) const;
  TypeNumber number_of(const TypedBlock& typed, bool has_elements);
  void follow(const Known& known, const Claims& claims);

  Limits limits_;
  std::vector<Source> sources_;
  std::map<ClassKey, DebugTypeNumber> classes_;  // that vtables name
  std::unique_ptr<DebugTypes> debug_types_;
  std::unique_ptr<BlockTyping> typing_;
  std::vector<BlockType> types_ = {BlockType{}};
  std::vector<bool> is_plain_ = {false};
  std::vector<std::string> type_modules_;
  std::vector<TypeNumber> number_of_;  // by type and shape
  unsigned word_ = 8;
  std::vector<std::string> notes_;
};

}  // namespace heapsnap
