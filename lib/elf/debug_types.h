// Reads from debug information what pointers lead to: those of variables, of stack frames, of
// objects of classes, and on from there, as far as it leads.
//
// Of a program only what is asked for and what that leads to is read, each type once. Containers of
// libstdc++ keep their nodes by pointers to a base class (_Rb_tree_node_base); there the container
// says what the nodes are. A class that a file only declares may be defined in the next one.
//
// Files are anybody's: nothing recurses deeper than a few dozen, and the number of entries that are
// looked at, of types and of pointers is limited, as is the time. What is left out is unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "elf/elf_image.h"
#include "elf/type_graph.h"

namespace heapsnap {

struct DebugTypeLimits {
  uint64_t entries = uint64_t{1} << 24;  // of debug information that are looked at, of all files
  uint64_t deadline_ns = 0;              // of monotonic_ns(); 0: none
  size_t types = 1 << 18;
  size_t pointers = 1 << 22;  // of all types
  size_t name_bytes = 64 << 20;
};

struct TypeQuestions {
  // Addresses of words in the file, and offsets in PT_TLS; both ascending.
  std::vector<uint64_t> variables;
  std::vector<uint64_t> thread_locals;
  struct Frame {
    uint64_t code = 0;           // address in the file, within the instruction
    std::vector<int64_t> words;  // distances from the canonical frame address
  };
  std::vector<Frame> frames;
  std::vector<std::string> classes;  // qualified names
};

struct TypeAnswers {
  // Of each question in turn.
  std::vector<Pointee> variables;
  std::vector<Pointee> thread_locals;
  std::vector<std::vector<Pointee>> frames;
  std::vector<DebugTypeNumber> classes;
};

class DebugTypes {
 public:
  explicit DebugTypes(const DebugTypeLimits& limits);
  ~DebugTypes();

  // `file` has debug information. Never throws for damaged one: what is unreadable is unknown.
  TypeAnswers read(const ElfImage& file, const TypeQuestions& questions);

  // Of all files so far.
  const TypeGraph& graph() const;
  // Whether a limit was reached: then some types are missing.
  bool is_cut_off() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// As people write it: "std::string", and without the allocators and comparisons that everybody has.
std::string short_type_name(std::string name);

}  // namespace heapsnap
